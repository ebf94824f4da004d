"""Selections and joins of all queries, evaluated together in every cycle.

stage.py             the stage, and what was prepared for the network of the plan
network_pass.py      the groups in a cycle, level by level, and what is kept of them from cycle to cycle
lookups.py           new rows that look for others, and the rows that the driver holds for them
spark_jobs.py        rows that Spark selects, and kept rows that it probes
prepared.py          groups made ready to run
row_checks.py        predicates as checks of columns, and one condition for many nodes
join_groups.py       nodes whose rows are made in one step, and how far apart the clocks of rows that meet can be
join_statistics.py   what a cycle tells about sizes, and about joins that do not run
network_records.py   what cycles record of the network, in the catalog
"""
