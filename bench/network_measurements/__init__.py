"""What the network saves, against what else one could do with the same rows and queries.

    tasks.py             what contestants are to do, and the processes they do it in (`bench/contest.py` takes the time)
    contestants.py       the program of these processes
    found.py             what a measurement gives: ratios, tables, charts
    arena.py             rows are written once, and how much of everything is measured
    table_sql.py         a query over a stream as SQL over a table
    fed_statistics.py    what is true of the rows, for the planner

    weft_cycles.py       queries by weft, cycle by cycle
    spark_again.py       all SQL again in every cycle, by Spark
    duckdb_again.py      the same by DuckDB
    spark_each.py        one Structured Streaming query for each, and which ones Spark refuses

    planning.py          what needs neither rows nor Spark:
    network_size.py        the size of the network in five configurations
    registration.py        how long the ten-thousandth query takes to register
    chains.py            cycles of 4,000 records under chains of transfers
    inference.py         what conditions that follow from others are worth
    aggregates.py        incremental and shared aggregates, over transfers and over discharges
    selections.py        a thousand selections in one pass
    flights.py           real rows: flights and weather

Time is CPU seconds of the whole process tree unless a figure says wall. The first cycle, which takes the history, and
the next one are cold and do not count. What would take hours is measured for a sample of the queries, spread evenly
over all, and extrapolated; tables say so.
"""
