"""How a stream travels from its source to all who want it, once per link: trees, and how they adapt while they run.

overlay.py          who wants what, how fast nodes are, how far apart
trees.py            trees as data, and what is none
fidelity.py         how true a copy is, and which updates keep it true
cost.py             what a forest costs: slow, and meant to be obviously right
arrays.py           a forest as arrays, with all sums that its cost is made of; compiled
moves.py            what moving a subtree would cost
rules.py            the six local rules
rounds.py           tokens: node after node uses the best rule
protocol.py         the same for many trees at once, as messages
construction.py     Greedy, and the simple trees that it is compared with
annealing.py        simulated annealing

Modules are imported by name. `lab.simulate.dissemination` runs all of it message by message.
"""
