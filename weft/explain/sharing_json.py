"""What queries share, and what cycles measured, as JSON documents: all that the text says, and all of the lists.

Lengths of time are in ticks of the clock. Costs and rates of the plan are exact and per tick, as text like `7/10`;
what was measured is in seconds and plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction

from weft.algebra import Query
from weft.explain.json import Document, query_document, window_document
from weft.explain.network_json import network_document, network_query_document
from weft.plan.sharing import (
    Apart,
    Measured,
    PlannedFor,
    RunningAggregateQuery,
    SharedReduction,
    SharedStream,
    SharedTree,
    Sharing,
    WovenQuery,
)


def shared_document(queries: Sequence[Query], sharing: Sharing, measured: Measured) -> Document:
    """Queries, the streams that those of them share which are woven, and what the last cycles measured."""
    names = {each.name for each in queries}
    read = {woven.stream for name, woven in sharing.woven.items() if name in names}
    read |= {running.stream for name, running in sharing.running.items() if name in names}
    return {
        "queries": [_query(each, sharing) for each in queries],
        "streams": [_stream(each) for each in sharing.streams if each.name in read],
        "network": network_document(sharing.network.within(names)),
        "measured": measured_document(measured),
    }


def measured_document(measured: Measured) -> Document:
    """What the last cycles measured, the newest last."""
    return {
        "cycles": [asdict(each) for each in measured.cycles],
        "selectivities": {stream: dict(shares) for stream, shares in measured.selectivities.items()},
        "network": dict(measured.network),
    }


def _query(query: Query, sharing: Sharing) -> Document:
    woven, running = sharing.woven.get(query.name), sharing.running.get(query.name)
    networked = sharing.network.queries.get(query.name)
    return {
        **query_document(query),
        "woven": _woven(woven) if woven is not None else _running(running) if running is not None else None,
        "not_woven": sharing.not_woven.get(query.name),
        "network": network_query_document(networked) if networked is not None else None,
        "not_networked": sharing.network.not_networked.get(query.name),
    }


def _woven(woven: WovenQuery) -> Document:
    return {
        "stream": woven.stream,
        "tree": woven.tree.number,
        "companions": len(woven.tree.queries) - 1,
        "cost": str(woven.cost),
        "alone": str(woven.alone),
    }


def _running(running: RunningAggregateQuery) -> Document:
    return {
        "stream": running.stream,
        "tree": None,
        "companions": len(running.cohort.queries) - 1,
        "cost": str(running.cost),
    }


def _stream(stream: SharedStream) -> Document:
    return {
        "stream": stream.name,
        "rate": _fraction(stream.rate),
        "planned_for": _planned_for(stream.planned_for),
        "reduction": _reduction(stream.reduction),
        "cohorts": [
            {
                "conditions": list(cohort.conditions),
                "keys": list(cohort.keys),
                "host": cohort.host,
                "trees": [_tree(tree, stream) for tree in cohort.trees],
            }
            for cohort in stream.cohorts
        ],
        "running": [
            {
                "conditions": list(each.conditions),
                "keys": list(each.keys),
                "measures": list(each.measures),
                "queries": list(each.queries),
            }
            for each in stream.running
        ],
    }


def _planned_for(planned: PlannedFor | None) -> Document | None:
    if planned is None:
        return None
    return {
        "rows_per_tick": _fraction(planned.rows_per_tick),
        "ticks_per_cycle": _fraction(planned.ticks_per_cycle),
        "keys": dict(planned.keys),
    }


def _reduction(reduction: SharedReduction) -> Document:
    return {
        "edges": [list(each) for each in reduction.edges],
        "edge_rate": str(reduction.edge_rate),
        "conditions": list(reduction.conditions),
        "signature_columns": reduction.signature_columns,
        "keys": list(reduction.keys),
        "aggregates": list(reduction.aggregates),
        "sql": reduction.sql,
    }


def _tree(tree: SharedTree, stream: SharedStream) -> Document:
    return {
        "tree": tree.number,
        "windows": [window_document(each, stream.clock) for each in tree.windows],
        "edge_rate": str(tree.edge_rate),
        "kernels": [
            {
                "measure": each.measure,
                "kernel": each.kernel,
                "reason": each.reason,
                "left_out": dict(each.left_out),
            }
            for each in tree.kernels
        ],
        "queries": list(tree.queries),
        "final_cost": str(tree.final_cost),
        "reading_cost": str(tree.reading_cost),
        "apart": None if tree.apart is None else _apart(tree.apart),
    }


def _apart(apart: Apart) -> Document:
    return {
        "tree": apart.tree,
        "reason": apart.reason,
        "saved": _fraction(apart.saved),
        "added": _fraction(apart.added),
    }


def _fraction(value: Fraction | None) -> str | None:
    return None if value is None else str(value)
