"""The federation without machines: what would happen on thousands of sites, decided by the same code as on real ones.

events.py           what happens when: a queue of events, and random numbers from one seed
queues.py           a node that serves one thing after the other
wires.py            messages that take as long as the way is, are counted, and get lost at sites that are down
federation.py       providers, queries that come, rounds of redistribution, failures
dissemination.py    updates on their way down dissemination trees (tree_rounds.py: while the trees are reorganised)
"""
