"""Handing queries over: from which batch on they must be fed again.

It is always right to feed a query everything from its birth. For most much less will do: no answer behind the place may
rest on a row that came before feeding begins.

    selections          nothing: every row is answered when it comes
    windows             the oldest instance that is still open begins at w. Up to the last batch that left the stream's
                        clock below w no row of w or later had come, and what had come is not needed.
    joins of streams    a row that comes later is not below the watermark, and meets rows at most the longest range (and
                        a slide) older than itself; those came after the last batch that left all clocks below that
    anything else       its birth: aggregates and sets over all history, EMIT EMPTY, queries over answers

A query that is created again in the middle answers the instances that begin after the largest clock it finds (its
horizon, see docs/semantics.md). Feeding begins where that clock is below w, so these are the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.algebra import Select, Stream
from weft.algebra.properties import leaves
from weft.federation.live.ledger import FederationLedger, StandingQuery
from weft.plan.event_time import first_open_start, is_windowed, passes_rows


def feeding_begins(ledger: FederationLedger, queries: Mapping[int, int]) -> dict[int, int]:
    """By birth where feeding must begin for some queries, each with the place behind which it is to answer.

    Queries that read one another's answers begin as they did.
    """
    standing = [ledger.queries[birth] for birth in queries]
    read = frozenset().union(*(each.parents for each in ledger.running()))
    alone = {each.birth for each in standing if not each.parents and each.name not in read}
    return {
        each.birth: feeding_from(ledger, each, queries[each.birth]) if each.birth in alone else each.birth
        for each in standing
    }


def feeding_from(ledger: FederationLedger, standing: StandingQuery, after: int) -> int:
    """The place behind which a query must be fed all batches to give its answers behind the place `after`."""
    if after <= standing.birth:
        return standing.birth
    relation = standing.query.relation
    streams = [each for each in leaves(relation) if isinstance(each, Stream)]
    if not isinstance(relation, Select) or len(streams) < len(leaves(relation)):
        return standing.birth
    if passes_rows(relation):
        return after
    needed = _oldest_needed(ledger, relation, streams, after)
    if needed is None:
        return standing.birth
    return max(standing.birth, min(after, *(ledger.streams[each.name].last_below(needed) for each in streams)))


def _oldest_needed(ledger: FederationLedger, select: Select, streams: list[Stream], after: int) -> int | None:
    """The oldest clock of a row that an answer behind a place may rest on; None if it may be any."""
    clocks = [ledger.streams[each.name].clock_at(after) for each in streams]
    watermarks = [clock - each.delay for each, clock in zip(streams, clocks, strict=True) if clock is not None]
    if len(watermarks) < len(streams):
        return None
    if len(select.inputs) > 1:
        # A join of streams, each within a range, and nothing more.
        windows = [each.window for each in select.inputs if passes_rows(each.source)]
        bounded = [each for each in windows if each is not None and not each.is_unbounded]
        if len(bounded) < len(select.inputs) or select.is_grouped or select.distinct or select.window is not None:
            return None
        return min(watermarks) - max((each.range or 0) + each.slide for each in bounded)
    # One window over the rows of one stream.
    is_plain = not select.emit_empty and not select.distinct and len(streams) == 1
    if not (is_plain and is_windowed(select) and passes_rows(select.inputs[0].source)):
        return None
    assert select.window is not None
    return first_open_start(select.window, min(watermarks))
