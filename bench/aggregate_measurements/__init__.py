"""What shared aggregates cost, against what else one could do with the same rows and queries.

    workload.py        the queries: windows, functions, predicates, drawn from a seed
    data.py            the rows: generated readings, and the flights out of New York, one file for each micro-batch
    jobs.py            what a contestant is to do, and the process that does it (`bench/contest.py` takes the time)
    pictures.py        the charts
    answers.py         answers of two contestants side by side

    weft_shared.py     all queries by weft
    spark_each.py      one tuned Structured Streaming query for each
    spark_union.py     all queries as branches of one Structured Streaming query
    spark_floor.py     one plain batch aggregation: what Spark needs for the rows alone
    machine_floor.py   a loop over arrays: what the machine needs
    duckdb_again.py    every query anew for each batch, by DuckDB
    polars_again.py    the same by Polars
    flink_hops.py      a statement set of hopping windows on Flink
    weft_restart.py    a second process takes over a project

    against.py, flatness.py, limits.py, latency.py, key_scale.py, model.py    the measurements, each with its table

Every contestant has a process of its own. It first runs a dozen of the queries over a few small files. That warms it
up, and its answers there are compared with weft's: a figure for wrong answers would be worth nothing. Then it runs what
is measured. A run goes by batches, one file each; the first two are not counted, since they pay for compiling plans and
for the first use of everything. Where there are no batches (Flink), a run over half of the rows is taken off a run over
all of them. What is compared is CPU time of the whole process tree per row.
"""
