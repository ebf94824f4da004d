"""What is decided about: who is where, which data flow, and who wants which of them.

network.py          the network graph: providers, sources, and how far they are from one another
substreams.py       the data, cut into substreams with rates
queries.py          queries: load, home, and which substreams they want
derived.py          … found from the conditions of real queries
synthetic.py        … drawn from a seed, with hot spots
edge_cut.py         what a placement costs by the weighted edge cut
multicast.py        and what it truly costs, if every link carries a substream once
"""
