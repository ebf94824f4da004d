"""Where the parts of queries run, within one provider: decided by the nodes themselves, from what is next to them.

fragments.py      a query's plan, cut into one fragment for each stream: what is placed and moved
performance.py    how long a row stays over how long it takes: the performance ratio, and the model of it
load.py           measured load without its noise, and when it is news to others
partners.py       whose load a node knows: a few nodes, asked for and asked by
requests.py       when a node asks another one for work, and for how much
selection.py      which fragments go: flow-aware, and the strategies it is compared with
simulated/        a provider's cluster, tuple by tuple, that carries the decisions out

All but `simulated` are functions over values. They know no clock, no messages and no engine: whoever measures loads,
be it a simulator or real workers, asks them and does what they say.
"""
