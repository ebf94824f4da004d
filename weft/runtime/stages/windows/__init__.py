"""Aggregates over streams, which share their work, from rows to answers. What they share is in the plan.

    signatures.py          which of the conditions hold for a row, as a few small numbers
    reduction.py           rows to partials, by slices of time: one Spark aggregation for a stream
    partials.py            partials as tables that describe themselves, and their segments
    rollup.py              group keys as numbers, and the partials that a tree takes, from the finest ones
    window_tree.py         the windows of queries with the same conditions and keys, in their kernels
    stream_weave.py        all trees of a stream
    running_aggregates.py  groups of queries that never close
    backfill.py            history for queries that are new, from rows that a stream has stored
    window_answers.py      from aggregates to rows
    live_partials.py       how many partials are live: if there are too many, windows live on executors (executors.py)
    warm_start.py          the state of the last process, restored while Spark starts
    aggregate_stage.py     what it has in common with the stage of groups
    stage.py               all of this inside a cycle

A row is touched once, in `reduction`; everything after it costs as much as there are partials. Partials, and the groups
that never close, are all the state.
"""
