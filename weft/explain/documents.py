"""What queries share, and what cycles measured, as JSON documents: all that the text says, and all of the lists.

Lengths of time are in ticks of the clock. Costs and rates of the plan are exact and per tick, as text like `7/10`;
what was measured is in seconds and plain numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from weft.algebra import Query
from weft.explain.query_text import Document, query_document, window_document

if TYPE_CHECKING:
    # `weft status` prints what was measured without loading the engine's modules.
    from weft.explain.plan_description import NetworkQuery, SharedNetwork, SharedStream, SharedTree, Sharing
    from weft.plan.facts import Measurements


def shared_document(queries: Sequence[Query], sharing: Sharing, measured: Measurements) -> Document:
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


def measured_document(measured: Measurements) -> Document:
    return {
        "cycles": _plain(measured.cycles),
        "selectivities": _plain(measured.selectivities),
        "network": dict(measured.network),
    }


def network_document(network: SharedNetwork) -> Document:
    """Nodes, parents before children, and families of joins, lower levels first."""
    return {
        "nodes": _plain([*network.nodes.values()]),
        "families": _plain(network.families),
        "cost": network.cost,
    }


def network_query_document(query: NetworkQuery) -> Document:
    """A query's part in the network: nodes by number. Its companions are the queries of the nodes that it shares."""
    return {name: value for name, value in _plain(query).items() if name != "name"}


def _query(query: Query, sharing: Sharing) -> Document:
    woven, running = sharing.woven.get(query.name), sharing.running.get(query.name)
    networked = sharing.network.queries.get(query.name)
    shared: Document | None = None
    if woven is not None:
        shared = {
            "stream": woven.stream,
            "tree": woven.tree.number,
            "companions": len(woven.tree.queries) - 1,
            "cost": str(woven.cost),
            "alone": str(woven.alone),
        }
    elif running is not None:
        shared = {
            "stream": running.stream,
            "tree": None,
            "companions": len(running.cohort.queries) - 1,
            "cost": str(running.cost),
        }
    return {
        **query_document(query),
        "woven": shared,
        "not_woven": sharing.not_woven.get(query.name),
        "network": network_query_document(networked) if networked is not None else None,
        "not_networked": sharing.network.not_networked.get(query.name),
    }


def _stream(stream: SharedStream) -> Document:
    return {
        "stream": stream.name,
        "rate": _plain(stream.rate),
        "planned_for": _plain(stream.planned_for),
        "reduction": _plain(stream.reduction),
        "cohorts": [
            {
                "conditions": list(cohort.conditions),
                "keys": list(cohort.keys),
                "host": cohort.host,
                "trees": [_tree(tree, stream) for tree in cohort.trees],
            }
            for cohort in stream.cohorts
        ],
        "running": _plain(stream.running),
    }


def _tree(tree: SharedTree, stream: SharedStream) -> Document:
    return {**_plain(tree), "windows": [window_document(each, stream.clock) for each in tree.windows]}


def _plain(data: object) -> Any:
    """Frozen data as dicts and lists; fractions as text."""
    return msgspec.json.decode(msgspec.json.encode(data, enc_hook=str))
