"""The workloads of the network: two streams of records, and the sets of queries over them.

    fed_rows.py        money transfers between banks, drawn from a seed: 300,000 of history, then 4,000 at a time
    med_rows.py        discharges from hospitals, of the same make: 600,000, then 4,000 at a time
    files.py           rows as Parquet, one file for each cycle, and the streams that read them
    fed_examples.py    the seven queries that the others are made from, and four aggregates
    fed_chains.py      chains of two to five transfers: a grid of 768, and three sets of 1,000 drawn at random
    fed_aggregates.py  350 aggregates after joins, before joins, and between set operators
    med_queries.py     450 aggregates and 565 joins about patients who come again
    selections.py      any number of selections with ranges and equalities over one stream
    flights.py         joins of the flights out of New York with the weather there
    sets.py            all of them by name

What the queries are follows the experiments with ARGUS (C. Jin, 2006). Their rows were never published, nor was the SQL
of most of their queries, so the parameters are theirs and the rest is built around them. Where SQL over a table becomes
a query over streams, this keeps the meaning:

- `tran_date` and `adate` are the streams' clocks. They are days, as in the source: TIMESTAMPs at midnight. `+ 20`
  becomes `+ INTERVAL 20 DAYS`, and bounds how long rows are kept.
- Two records of one day (`to_char` in the source) are an equality of DATEs, with `[RANGE 1 DAY]` on both inputs: rows
  of one day are less than a day apart, so the window adds nothing and only says what may be forgotten.
- A join that looks back without limit says `[RANGE UNBOUNDED]`, and a set operator over history `RETAIN UNBOUNDED`.
- A view with the sums of each day is a window of one day, and two such views are joined where they end together
  (`[NOW]`): each day is answered once, when it is over. The source updates sums all day long.
- Other aggregates have no window: a group is answered again whenever it changes, as in the source.
- The source's `zipdistance(a, b)` is a function of its own; here it is the difference between two ZIP codes as numbers.
"""
