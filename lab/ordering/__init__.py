"""Operator ordering: every tuple finds its own way through the sites that join it (SwAP, COSMOS's chapter 5).

join_graph.py     a query: streams, joins, the places that receive and evaluate them; cycles across places are cut
distributed.py    sub-queries by place, and who needs whose results (Algorithm 5.1, repaired)
modules.py        by which modules results may travel, in any order that makes sense (Algorithms 5.2 and 5.3, repaired)
footprints.py     where a tuple has been, and who lets it pass
query.py          all of it for one query; fixed orders; places of several sites

simulator.py      a query at work, tuple by tuple
setting.py        … its tuples, machines, changes and costs
assembly.py       … how its parts are put together
sites.py          … processors that take turns between inputs
eddies.py         … who leads items from SteM to SteM and from site to site
channels.py       … short queues, wires, and the numbers that come back
items.py          … tuples and SteMs
tickets.py        … lotteries: who gets a tuple first

An engine decides once in a cycle, for whole orders of joins: `weft/optimizer/network/redeciding.py`.
"""
