"""DISTINCT and the set operators, in the driver: a cycle costs what is new, and no Spark job.

set_rows.py        the rows of operands as tables, UNION ALL, and how long rows of a log are needed
set_operators.py   operators over history, bounded by RETAIN, and between window instances
stage.py           the operators of all queries, and their logs
"""
