"""CREATE STREAM and CREATE TABLE: columns, clocks and sources."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from weft.algebra import Field, Stream, Table
from weft.algebra.expressions import Call, Column, Expression, Literal
from weft.algebra.types import BIGINT, TIMESTAMP, Kind
from weft.sql import dialect, expression_binder
from weft.sql.constants import bind_type
from weft.sql.names import Names, name_refusal
from weft.sql.paths import source_refusal
from weft.sql.problems import Code, did_you_mean
from weft.sql.scope import Scope, refuse
from weft.sql.window_clause import ticks

#: What to do about a statement that goes beyond the limits of its project.
WHO_ALLOWS = "who owns the project can allow more folders: weft init --allow"

#: The option of a stream that says what becomes of a file that cannot be read as declared.
BAD_FILES = "bad_files"
SET_ASIDE, STOP = "set aside", "stop"

_BYTES = (Kind.STRING, Kind.BINARY)

#: The columns that a source always has, whatever is declared; some can only be read as certain types.
_COLUMNS: Mapping[str, Mapping[str, tuple[Kind, ...]]] = {
    "kafka": {
        "key": _BYTES,
        "value": _BYTES,
        "topic": (),
        "partition": (),
        "offset": (),
        "timestamp": (),
        "timestampType": (),
    },
    "rate": {"timestamp": (), "value": ()},
    "rate-micro-batch": {"timestamp": (), "value": ()},
    "socket": {"value": _BYTES, "timestamp": ()},
}

_ADVICE = {"kafka": "read the topic in Python, take value apart with from_json, and hand the DataFrame to loom.stream"}


def _check_source(tree: dialect.StreamNode, fields: list[Field], options: Mapping[str, str]) -> None:
    """Refuse columns that the source of a stream cannot have, and values that its options do not take."""
    node = tree.args["format"]
    source = node.name.lower()
    known = _COLUMNS.get(source)
    if known is not None:
        for column, field in zip(tree.args["columns"], fields, strict=True):
            name = next((each for each in known if each.lower() == field.name.lower()), None)
            if name is None:
                otherwise = _ADVICE.get(source, "declare these columns, or choose another source")
                message = f"a stream from {source} has no column '{field.name}', only {', '.join(known)}"
                raise refuse(Code.BAD_STREAM, message, column.this, did_you_mean(field.name, known, otherwise))
            if known[name] and field.type.kind not in known[name]:
                raise refuse(
                    Code.BAD_STREAM,
                    f"column '{field.name}' of a stream from {source} is text or bytes, and cannot be {field.type}",
                    column.this,
                    "declare it as STRING and cast it in the queries",
                )
    wanted = {name.lower(): value for name, value in options.items()}.get(BAD_FILES)
    if wanted is not None and wanted not in (SET_ASIDE, STOP):
        hint = f"write {BAD_FILES} '{SET_ASIDE}' or {BAD_FILES} '{STOP}'"
        raise refuse(Code.BAD_SETTING, f"{BAD_FILES} cannot be '{wanted}'", node, hint)


def kind_of(name: str, names: Names) -> str | None:
    """Whether a name is that of a stream, a table, a view or a query; None if it is free."""
    if names.find_stream(name) is not None:
        return "stream"
    if names.find_table(name) is not None:
        return "table"
    if names.find_view(name) is not None:
        return "view"
    return "query" if names.find_query(name) is not None else None


def drop_words(kind: str) -> str:
    return "DROP CONTINUOUS QUERY" if kind == "query" else f"DROP {kind.upper()}"


def check_new(name: exp.Identifier, names: Names) -> None:
    refused = name_refusal(name.name)
    if refused is not None:
        raise refuse(Code.BAD_NAME, refused, name, "choose another name")
    owner = kind_of(name.name, names)
    if owner is not None:
        readers = names.readers(name.name) if owner != "view" else ()
        if readers:
            more = f" and {len(readers) - 1} more" * (len(readers) > 1)
            hint = f"choose another name; to replace it, first drop what reads it ('{readers[0]}'{more}), then it"
        else:
            hint = f"choose another name or {drop_words(owner)} {name.name} first"
        raise refuse(Code.ALREADY_EXISTS, f"a {owner} called '{name.name}' exists already", name, hint)


def bind_stream(tree: dialect.StreamNode, names: Names) -> Stream:
    check_new(tree.this, names)
    fields = _bind_columns(tree, Code.BAD_STREAM)
    watermark = tree.args.get("watermark")
    if watermark is None:
        candidates = [field.name for field in fields if field.type in (TIMESTAMP, BIGINT)]
        example = candidates[0] if candidates else "ts"
        hint = f"add WATERMARK FOR {example} AS {example} - INTERVAL 5 SECONDS (how late rows may be)"
        raise refuse(Code.BAD_WATERMARK, "a stream needs a clock", tree.this, hint)
    clock, delay = _bind_watermark(watermark, fields)
    if tree.args.get("format") is None:
        raise refuse(Code.BAD_STREAM, "a stream needs a source", tree.this, "add USING parquet OPTIONS (path '…')")
    options = tuple(tree.args.get("options") or ())
    _check_source(tree, fields, dict(options))
    _check_allowed(tree, names)
    backfill = tree.args.get("backfill")
    return Stream(
        name=tree.this.name,
        fields=tuple(fields),
        clock=clock.name,
        delay=delay,
        format=tree.args["format"].name.lower(),
        options=options,
        backfill=ticks(backfill, clock.type) if backfill is not None else 0,
        shed_allowed=tree.args.get("shed") is not None,
    )


def bind_table(tree: dialect.TableNode, names: Names) -> Table:
    check_new(tree.this, names)
    fields = _bind_columns(tree, Code.BAD_TABLE)
    for clause, word in (("watermark", "clock"), ("backfill", "history"), ("shed", "rows that could be left out")):
        node = tree.args.get(clause)
        if node is not None:
            hint = f"drop {clause.upper()}, or CREATE STREAM if its rows arrive one after the other"
            raise refuse(Code.BAD_TABLE, f"a table has no {word}", node, hint)
    if tree.args.get("format") is None:
        raise refuse(Code.BAD_TABLE, "a table needs a source", tree.this, "add USING parquet OPTIONS (path '…')")
    _check_allowed(tree, names)
    return Table(tree.this.name, tuple(fields), tree.args["format"].name.lower(), tuple(tree.args.get("options") or ()))


def _check_allowed(tree: dialect.StreamNode | dialect.TableNode, names: Names) -> None:
    node, options = tree.args["format"], dict(tree.args.get("options") or ())
    refused = source_refusal(node.name.lower(), options, names.allowed_paths())
    if refused is not None:
        raise refuse(Code.NOT_ALLOWED, refused, node, WHO_ALLOWS)


def _bind_columns(tree: dialect.StreamNode | dialect.TableNode, code: Code) -> list[Field]:
    fields: list[Field] = []
    for column in tree.args["columns"]:
        if any(field.name.lower() == column.this.name.lower() for field in fields):
            raise refuse(code, f"column '{column.this.name}' is declared twice", column.this, "rename one")
        fields.append(Field(column.this.name, bind_type(column.args["kind"])))
    return fields


def _bind_watermark(watermark: dialect.WatermarkNode, fields: list[Field]) -> tuple[Field, int]:
    """The clock column and the delay that `WATERMARK FOR c AS c - delay` declares."""
    name = watermark.this.name
    clock = next((field for field in fields if field.name.lower() == name.lower()), None)
    if clock is None:
        hint = did_you_mean(name, [field.name for field in fields])
        raise refuse(Code.BAD_WATERMARK, f"clock column '{name}' is not declared", watermark.this, hint)
    if clock.type not in (TIMESTAMP, BIGINT):
        hint = "a clock is a TIMESTAMP, or a BIGINT that grows with the rows"
        raise refuse(Code.BAD_WATERMARK, f"'{name}' is a {clock.type}, which cannot be a clock", watermark.this, hint)
    bound = expression_binder.bind(watermark.expression, Scope([("", tuple(fields))], "WATERMARK"))
    delay = _delay(bound, clock)
    if delay is None:
        form = "INTERVAL 5 SECONDS" if clock.type == TIMESTAMP else "100"
        message = "this is not the clock minus a constant that is not negative"
        hint = f"write WATERMARK FOR {name} AS {name} - {form}"
        raise refuse(Code.BAD_WATERMARK, message, watermark.expression, hint)
    return clock, delay


def _delay(bound: Expression, clock: Field) -> int | None:
    if isinstance(bound, Column) and bound.name == clock.name:
        return 0
    if isinstance(bound, Call) and bound.op == "-" and len(bound.args) == 2:
        column, delay = bound.args
        if isinstance(column, Column) and column.name == clock.name and isinstance(delay, Literal):
            length = delay.value
            if isinstance(length, int) and delay.type.kind in (Kind.INTERVAL, Kind.BIGINT) and length >= 0:
                return length
    return None
