"""Answers EXPLAIN, SHOW and DESCRIBE from what is registered, measured and committed. Spark is not needed for that."""

from __future__ import annotations

import json
from collections.abc import Sequence

from weft.algebra import Query, Stream, Table, View
from weft.algebra.properties import clock_type
from weft.algebra.secrets import shown, shown_sql, shown_value
from weft.catalog import Catalog
from weft.explain.query_text import duration_text, relation_lines, window_text
from weft.loom.registration import Outcome
from weft.sql.settings import SETTINGS


def explain(catalog: Catalog, query: str | None, format: str) -> str:
    """How a query of a project, or all of them, are evaluated and what they share."""
    from weft.delivery.delivery_explanation import delivered, delivered_document, delivered_lines
    from weft.explain.explained import explained
    from weft.explain.project import Project
    from weft.runtime.stages.statistics import measured

    queries = _evaluated(catalog)
    chosen = None if query is None else catalog.query(query)
    found = None if chosen is None else delivered(catalog, chosen.name)
    if found is not None and found.parts and chosen not in queries:
        chosen = found.parts[0].query
    text = explained(queries, chosen, measured(catalog), format, Project.of(catalog))
    if format == "TEXT":
        said = [] if found is None else ["\n".join(delivered_lines(found))]
        said += [] if query is None else _state_of(catalog, catalog.query(query).name)
        return "\n\n".join([*said, text])
    if found is not None and format == "JSON":
        return json.dumps({**json.loads(text), "delivery": delivered_document(found)}, indent=2, ensure_ascii=False)
    return text


def _evaluated(catalog: Catalog) -> tuple[Query, ...]:
    """The queries that are evaluated, with representatives in the place of those that go to subscribers.

    A query that has no representative yet is listed itself.
    """
    grouped = {each.number for each in catalog.deliveries.itineraries()}
    ungrouped = {name for name, number in catalog.members().items() if number not in grouped}
    running = catalog.running()
    known = {each.name for each in running}
    return (*running, *(each for each in catalog.queries() if each.name in ungrouped - known))


def _state_of(catalog: Catalog, query: str) -> list[str]:
    """Whether a query is in error, or evaluated apart from the others since it was, as sentences."""
    from weft.runtime.state.commits import errors_of, last_commit

    commit = last_commit(catalog.path.parent)
    if commit is None:
        return []
    if query in errors_of(commit):
        return [f"{query} is in error: {errors_of(commit)[query].sentence}"]
    if any(query in each.members for each in commit.islands.values()):
        return [f"{query} is evaluated apart from the others since it was in error, and shares nothing with them"]
    return []


def show(catalog: Catalog, kind: str) -> Outcome:
    """The table of all STREAMS, TABLES, VIEWS, QUERIES or SETTINGS."""
    if kind == "STREAMS":
        streams = [
            (each.name, each.format, each.clock, duration_text(each.delay, clock_type(each)))
            for each in catalog.streams()
        ]
        return _table(("stream", "format", "clock", "watermark delay"), streams)
    if kind == "TABLES":
        tables = [(each.name, each.format, shown(dict(each.options).get("path", ""))) for each in catalog.tables()]
        return _table(("table", "format", "path"), tables)
    if kind == "VIEWS":
        return _table(("view", "definition"), [(each.name, _one_line(each.text)) for each in catalog.views()])
    if kind == "QUERIES":
        queries = [(each.name, window_of(each), _one_line(each.text)) for each in catalog.queries()]
        return _table(("query", "window", "definition"), queries)
    known = dict.fromkeys(SETTINGS, "")
    known |= {name: shown_value(name, str(value)) for name, value in catalog.settings().stored.items()}
    return _table(("setting", "value"), list(known.items()))


def describe(catalog: Catalog, name: str) -> Outcome:
    """The columns of a stream, table, view or query, and where its rows come from."""
    match catalog.find(name) or catalog.query(name):
        case Stream() as stream:
            delay, fields = duration_text(stream.delay, clock_type(stream)), stream.fields
            message = f"stream {stream.name} from {stream.format}; clock {stream.clock}, rows late by up to {delay}"
        case Table() as table:
            fields, message = table.fields, f"table {table.name} from {table.format}"
        case View(relation=relation) | Query(relation=relation) as found:
            fields = relation.fields
            message = "\n".join([f"{type(found).__name__.lower()} {name}", *relation_lines(relation)])
    return Outcome(message, ("column", "type"), tuple((field.name, str(field.type)) for field in fields))


def window_of(query: Query) -> str:
    """The window of a query as tables show it."""
    window = query.relation.window
    return "-" if window is None else window_text(window, query.relation.clock_type)


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Outcome:
    return Outcome(f"{len(rows)} row{'s' * (len(rows) != 1)}", columns, tuple(rows))


def _one_line(text: str) -> str:
    return " ".join(shown_sql(text).split())
