"""Aggregates that share their work, from rows to answers.

    shape.py        which queries can be woven, and what each of them needs: a window, conditions, keys, measures
    measures.py     statistics as Spark aggregates, and back from Spark's columns to the kernels' records
    cells.py        the finest fragments that the windows of a stream cut time into
    signatures.py   which of the conditions hold for a row, as a few small numbers
    reduction.py    rows to partials: one Spark aggregation for a stream, whatever the number of queries
    partials.py     partials as files that describe themselves; partial_log.py writes and reads them
    numbering.py    group keys as numbers
    tree.py         the windows of queries with the same conditions and keys, and the kernels that answer them
    totals.py       groups of queries that never close; total_files.py has them as files that describe themselves
    backfill.py     history for queries that are new, from rows that a stream has kept
    values.py       columns of Arrow as physical values, and back
    expressions.py  HAVING and the select list over arrays; exact.py has the arithmetic of integers and DECIMALs,
                    text_and_time.py the functions of text and of the calendar
    empty_instances.py  EMIT EMPTY
    answers.py      from aggregates to rows
    hosts.py        which windows live in the driver, and which on the executors
    executors.py    a Spark job that answers those, and `shard.py`, what happens there
    stage.py        all of this inside a cycle
    carrying.py     trees that go on while queries come and go
    ahead.py        what the last process has left, brought back while Spark starts

A row is touched once, in `reduction`; everything after it costs as much as there are partials. Partials, and the totals
of groups that never close, are all that is kept. Partials are of the stream and not of a query: trees can be built anew
from them for any queries that were there when the rows came.
"""
