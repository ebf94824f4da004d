"""EXPLAIN: how queries are evaluated if all of them run together. Spark is not needed for that.

JSON says all that the text says, and has all of the lists. Lengths of time are in ticks of the clock. Costs and rates
of the plan are exact and per tick, as text like `7/10`; what was measured is in seconds and plain numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from weft.algebra import Query
from weft.explain.describe_joins import shared_network
from weft.explain.describe_windows import sharing
from weft.explain.pictures import dot, drawing, mermaid
from weft.explain.plan_description import SharedNetwork, SharedTree, Sharing
from weft.explain.plan_text import plan_text
from weft.explain.project import NOT_RUN, Project
from weft.explain.query_text import Document, query_document
from weft.explain.shared_text import shared_query_text, shared_text
from weft.explain.svg import svg
from weft.plan.facts import Measurements

_PICTURES = {"MERMAID": mermaid, "DOT": dot, "SVG": svg}


def explained(
    queries: Sequence[Query], query: Query | None, measured: Measurements, format: str, project: Project = NOT_RUN
) -> str:
    """How a query, or all of them, are evaluated, and what they share: as text, JSON or a picture.

    VERBOSE is the plan itself, and what each rule of the optimizer does for it.
    """
    if format == "VERBOSE":
        return plan_text(project.steps(queries, measured.facts), query)
    plan = project.plan(queries, measured.facts)
    found = sharing(queries, plan, measured, project)
    name = None if query is None else query.name
    found = replace(found, network=shared_network(queries, plan, project, found.woven, name))
    chosen = queries if query is None else (query,)
    if format == "JSON":
        return json.dumps(shared_document(chosen, found, measured), indent=2, ensure_ascii=False)
    if format != "TEXT":
        return _PICTURES[format](drawing(found, [each.name for each in chosen]))
    return shared_text(queries, found, measured) if query is None else shared_query_text(query, found, measured)


def shared_document(queries: Sequence[Query], sharing: Sharing, measured: Measurements) -> Document:
    """Queries, the streams that those of them share which are woven, and what the last cycles measured."""
    names = {each.name for each in queries}
    read = {woven.stream for name, woven in sharing.woven.items() if name in names}
    return {
        "queries": [_query(each, sharing) for each in queries],
        "streams": [_without("clock", each) for each in sharing.streams if each.name in read],
        "network": network_document(sharing.network.within(names)),
        "measured": measured.document(),
    }


def network_document(network: SharedNetwork) -> Document:
    """Nodes, parents before children, and families of joins, lower levels first."""
    return {"nodes": _plain([*network.nodes.values()]), "families": _plain(network.families), "cost": network.cost}


def _query(query: Query, sharing: Sharing) -> Document:
    woven, networked = sharing.woven.get(query.name), sharing.network.queries.get(query.name)
    shared: Document | None = None
    if woven is not None:
        shared = {
            "stream": woven.stream,
            "tree": woven.tree.number if isinstance(woven.tree, SharedTree) else None,
            "companions": len(woven.companions),
            "cost": str(woven.cost),
        }
        if woven.alone is not None:
            shared["alone"] = str(woven.alone)
    return {
        **query_document(query),
        "woven": shared,
        "not_woven": sharing.not_woven.get(query.name),
        "network": None if networked is None else _without("name", networked),
        "not_networked": sharing.network.not_networked.get(query.name),
    }


def _without(field: str, record: object) -> Document:
    return {name: value for name, value in _plain(record).items() if name != field}


def _plain(data: object) -> Any:
    """Frozen data as dicts and lists; fractions as text."""
    return msgspec.json.decode(msgspec.json.encode(data, enc_hook=str))
