"""Query distribution over providers, figure by figure (COSMOS, chapter 3).

setting.py       the experiments' network, workload and what a placement is judged by
initial.py       Figure 3.8: initial distribution, its cost and its time; a graph partitioner beside it
repair.py        Figure 3.9: a bad start is repaired
arrivals.py      Figure 3.10: new queries keep coming; the event simulation
throughput.py    Figure 3.11: queries that a root routes per second
rates.py         Figure 3.12: rates change
pictures.py      the same as charts
"""
