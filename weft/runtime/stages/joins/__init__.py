"""The network on Spark: selections and joins of all queries, evaluated together in every cycle.

current.py       the network of the queries that there are now
families.py      nodes whose rows are made alike
meeting.py       how far apart the clocks of rows that meet can be, and when rows are of no more use
conditions.py    predicates as checks of columns, and what of them Spark computes
hulls.py         one condition for many nodes
prepared.py      a family made ready to run
texts.py         what Spark is asked for
asking.py        asking it
ordinals.py      values as numbers that compare as SQL compares them
membership.py    which nodes a row belongs to
keys.py          keys as numbers
held.py          rows that joins look for, in the driver
probes.py        new rows that look for others
pairs.py         rows of two sides put together
distinct.py      how many values a column has, about
observing.py     what a cycle tells about sizes
evidence.py      what is written down of it, and of joins that were chosen anew
keeping.py       what is kept from cycle to cycle
stage.py         the families in a cycle, level by level
explanation.py   what EXPLAIN says of it
project.py       … of the queries of a project, or of a file
"""
