"""The federation without machines: what would happen on thousands of sites, decided by the same code as on real ones.

events.py           what happens when: a queue of events, and random numbers from one seed
"""
