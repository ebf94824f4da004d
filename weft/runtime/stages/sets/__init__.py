"""DISTINCT and the set operators, in the driver: a cycle costs what is new, and no Spark job.

    set_rows.py            the rows of operands as tables, UNION ALL, and how long rows of a log are needed
    history_operator.py    operators over history, bounded by RETAIN
    instance_operator.py   operators between window instances
    stage.py               the operators of all queries, and their logs

Both kinds of operator live from cycle to cycle and are no more than a copy of their log:

    operator.take(…)          the rows that are emitted in a cycle
    operator.changed()        what that cycle adds to the log
    operator.whole()          all that the log needs to hold, in place of what was added so far
    operator.remember(log)    in a new operator: what its log says, and then it goes on as if nothing had happened
    operator.bytes_held       about the memory that it takes

A cycle that fails leaves its operators with rows that do not count: they are dropped, and made again from the log.
"""
