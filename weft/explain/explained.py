"""EXPLAIN: how queries are evaluated if all of them run together. Spark is not needed for that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.algebra import Query
from weft.explain.describe_joins import shared_network
from weft.explain.describe_windows import sharing
from weft.explain.documents import shared_document
from weft.explain.pictures import dot, drawing, mermaid
from weft.explain.project import Project
from weft.explain.shared_text import shared_query_text, shared_text
from weft.explain.svg import svg
from weft.plan.facts import Measurements
from weft.runtime.stages.statistics import rates
from weft.runtime.stages.windows.kernel_placement import PlacementNotes, no_placement_note

_PICTURES = {"MERMAID": mermaid, "DOT": dot, "SVG": svg}


def explained(
    queries: Sequence[Query],
    query: Query | None,
    measured: Measurements,
    format: str,
    apart: Mapping[str, str] | None = None,
    hosts: PlacementNotes = no_placement_note,
    project: Project | None = None,
) -> str:
    """How a query, or all of them, are evaluated, and what they share: as text, JSON or a picture.

    `apart` has the reasons of queries that are not woven although they could be; `hosts` says where kernels live;
    `project` is what else is known of the queries, if they are those of a project.
    """
    found = sharing(queries, rates(measured), apart, measured.facts, hosts)
    woven = found.woven.keys() | found.running.keys()
    name = None if query is None else query.name
    found = replace(found, network=shared_network(queries, project or Project({}), woven, name))
    chosen = queries if query is None else (query,)
    if format == "JSON":
        return json.dumps(shared_document(chosen, found, measured), indent=2, ensure_ascii=False)
    if format != "TEXT":
        return _PICTURES[format](drawing(found, [each.name for each in chosen]))
    return shared_text(queries, found, measured) if query is None else shared_query_text(query, found, measured)
