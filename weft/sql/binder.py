"""From a syntax tree to a statement whose names and types are resolved.

    statement = bind(parse(text), names, text)

The rules of the language that need names and types are enforced here: `docs/semantics.md` says what they mean, and
`select.py` binds the SELECTs inside.
"""

from __future__ import annotations

from sqlglot import exp

from weft.algebra import Field, Query, Sink, Stream, Table
from weft.algebra.expressions import Call, Column, Expression, Literal
from weft.algebra.properties import clock_column
from weft.algebra.types import BIGINT, TIMESTAMP, Kind
from weft.sql import allowed_paths, dialect, durations, expressions, fixed_settings, object_names, statements
from weft.sql.errors import Code, Problem, did_you_mean
from weft.sql.folders import folder_of
from weft.sql.names import Names
from weft.sql.relation_binder import bind_relation
from weft.sql.scope import Scope, refuse
from weft.sql.sources import check_source
from weft.sql.window_clause import ticks

#: Settings that SET takes, and the values each of them may have (None: any number; none at all: any text).
SETTINGS: dict[str, tuple[str, ...] | None] = {
    "sharing": ("on", "off"),
    "heartbeat": None,
    "max_ahead": None,
    "late_rows": ("count", "dead letter"),
    "max_results": None,
    "error_retention": None,
    "max_state_mb": None,
    "max_driver_partials": None,
    "kernels": ("auto", "driver", "executors"),
    "delivery_delay": None,
    "delivery_every": None,
    "max_delivery_mb": None,
    "broker": (),
}

#: What to do about a statement that goes beyond the limits of its project.
_WHO_ALLOWS = "who owns the project can allow more folders: weft init --allow"

#: Where answers can be written.
SINKS = ("memory", "console", "parquet", "json", "subscribers")

EXPLAIN_FORMATS = ("TEXT", "JSON", "MERMAID", "DOT", "SVG")

#: Options of EXPLAIN that others have, and for which there is nothing to show yet.
_EXPLAIN_LATER = ("VERBOSE",)


def bind(tree: exp.Expr, names: Names, text: str) -> statements.Statement:
    """The bound form of a statement. Raises SqlError; registers nothing."""
    if tree.args.get("unless_exists") and _kind_of(tree.this.name, names) == _created_kind(tree):
        return statements.Nothing(f"{tree.this.name} is registered already")
    if isinstance(tree, dialect.StreamNode):
        return statements.CreateStream(_bind_stream(tree, names), text)
    if isinstance(tree, dialect.TableNode):
        return statements.CreateTable(_bind_table(tree, names), text)
    if isinstance(tree, dialect.QueryNode):
        return _bind_query(tree, names, text)
    if isinstance(tree, dialect.ViewNode):
        _check_new(tree.this, names)
        notes: list[Problem] = []
        relation = bind_relation(tree.expression, names, notes)
        return statements.CreateView(tree.this.name, relation, text, tuple(notes))
    if isinstance(tree, dialect.DropNode):
        return _bind_drop(tree, names)
    if isinstance(tree, dialect.ResumeNode):
        _check_query(tree.this, names)
        return statements.ResumeQuery(tree.this.name)
    if isinstance(tree, dialect.ShowNode):
        return statements.Show(tree.args["kind"])
    if isinstance(tree, dialect.DescribeNode):
        if _kind_of(tree.this.name, names) is None:
            hint = did_you_mean(tree.this.name, names.known_names(), "SHOW STREAMS and SHOW QUERIES list what there is")
            raise refuse(Code.UNKNOWN_NAME, f"nothing is called '{tree.this.name}'", tree.this, hint)
        return statements.Describe(tree.this.name)
    if isinstance(tree, dialect.ExplainNode):
        return _bind_explain(tree, names)
    if isinstance(tree, dialect.SettingNode):
        return _bind_setting(tree, names)
    if isinstance(tree, exp.Query):
        raise refuse(
            Code.UNKNOWN_STATEMENT,
            "a SELECT alone is not a statement of a stream processor",
            tree,
            "write CREATE CONTINUOUS QUERY name AS SELECT …",
        )
    raise refuse(
        Code.UNKNOWN_STATEMENT, "this is not a statement", tree, "write CREATE CONTINUOUS QUERY name AS SELECT …"
    )


def _kind_of(name: str, names: Names) -> str | None:
    """Whether a name is that of a stream, a table, a view or a query; None if it is free."""
    if names.find_stream(name) is not None:
        return "stream"
    if names.find_table(name) is not None:
        return "table"
    if names.find_view(name) is not None:
        return "view"
    return "query" if names.find_query(name) is not None else None


def _created_kind(tree: exp.Expr) -> str:
    if isinstance(tree, dialect.StreamNode):
        return "stream"
    if isinstance(tree, dialect.TableNode):
        return "table"
    return "view" if isinstance(tree, dialect.ViewNode) else "query"


def _drop_words(kind: str) -> str:
    return "DROP CONTINUOUS QUERY" if kind == "query" else f"DROP {kind.upper()}"


def _check_new(name: exp.Identifier, names: Names) -> None:
    refused = object_names.refusal(name.name)
    if refused is not None:
        raise refuse(Code.BAD_NAME, refused, name, "choose another name")
    owner = _kind_of(name.name, names)
    if owner is not None:
        readers = names.readers(name.name) if owner != "view" else ()
        if readers:
            more = f" and {len(readers) - 1} more" * (len(readers) > 1)
            hint = f"choose another name; to replace it, first drop what reads it ('{readers[0]}'{more}), then it"
        else:
            hint = f"choose another name or {_drop_words(owner)} {name.name} first"
        raise refuse(Code.ALREADY_EXISTS, f"a {owner} called '{name.name}' exists already", name, hint)


# -- streams and tables -----------------------------------------------------------------------------------------------


def _bind_stream(tree: dialect.StreamNode, names: Names) -> Stream:
    _check_new(tree.this, names)
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
    check_source(tree, fields, dict(options))
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


def _bind_table(tree: dialect.TableNode, names: Names) -> Table:
    _check_new(tree.this, names)
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
    refused = allowed_paths.source_refusal(node.name.lower(), options, names.allowed_paths())
    if refused is not None:
        raise refuse(Code.NOT_ALLOWED, refused, node, _WHO_ALLOWS)


def _bind_columns(tree: dialect.StreamNode | dialect.TableNode, code: Code) -> list[Field]:
    fields: list[Field] = []
    for column in tree.args["columns"]:
        if any(field.name.lower() == column.this.name.lower() for field in fields):
            raise refuse(code, f"column '{column.this.name}' is declared twice", column.this, "rename one")
        fields.append(Field(column.this.name, expressions.bind_type(column.args["kind"])))
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
    bound = expressions.bind(watermark.expression, Scope([("", tuple(fields))], "WATERMARK"))
    delay = _delay(bound, clock)
    if delay is None:
        form = "INTERVAL 5 SECONDS" if clock.type == TIMESTAMP else "100"
        raise refuse(
            Code.BAD_WATERMARK,
            "this is not the clock minus a constant that is not negative",
            watermark.expression,
            f"write WATERMARK FOR {name} AS {name} - {form}",
        )
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


# -- queries ----------------------------------------------------------------------------------------------------------


def _bind_query(tree: dialect.QueryNode, names: Names, text: str) -> statements.CreateQuery:
    _check_new(tree.this, names)
    sink = None
    format_ = tree.args.get("format")
    if format_ is not None:
        kind = format_.name.lower()
        options = tuple(tree.args.get("options") or ())
        if kind not in SINKS:
            hint = did_you_mean(kind, SINKS, f"sinks are {', '.join(SINKS)}")
            raise refuse(Code.UNSUPPORTED, f"sink '{format_.name}' is not supported", format_, hint)
        if kind in ("parquet", "json") and "path" not in dict(options):
            raise refuse(
                Code.BAD_SETTING, f"INTO {kind} needs a path", format_, f"write INTO {kind} OPTIONS (path '…')"
            )
        if kind == "subscribers":
            _check_hop(options, format_)
        sink = Sink(kind, options)
        _check_folder(sink, names, format_)
        refused = allowed_paths.sink_refusal(sink, names.allowed_paths())
        if refused is not None:
            raise refuse(Code.NOT_ALLOWED, refused, format_, _WHO_ALLOWS)
    notes: list[Problem] = []
    relation = bind_relation(tree.expression, names, notes)
    query = Query(
        name=tree.this.name,
        relation=relation,
        clock=clock_column(relation),
        text=text,
        sharing=tree.args["sharing"],
        sink=sink,
    )
    return statements.CreateQuery(query, tuple(notes))


def _check_folder(sink: Sink, names: Names, format_: exp.Expr) -> None:
    """Files of answers are named by the cycle alone: two queries in one folder would overwrite each other's."""
    folder = folder_of(sink)
    writer = None if folder is None else names.find_writer(folder)
    if writer is not None:
        path = dict(sink.options)["path"]
        hint = f"give each query a folder of its own, or DROP CONTINUOUS QUERY {writer} first"
        raise refuse(Code.FOLDER_TAKEN, f"query '{writer}' writes to '{path}' already", format_, hint)


def _check_hop(options: tuple[tuple[str, str], ...], format_: exp.Expr) -> None:
    """Subscribers may say where they are: queries with another first hop on the way to them are not merged."""
    for name, _ in options:
        if name != "hop":
            hint = did_you_mean(name, ["hop"], "write OPTIONS (hop 'berlin') for subscribers that are behind one link")
            raise refuse(Code.BAD_SETTING, f"INTO subscribers has no option '{name}'", format_, hint)


def _bind_drop(tree: dialect.DropNode, names: Names) -> statements.Statement:
    kind, name = tree.args["kind"], tree.this.name
    find = {
        "STREAM": names.find_stream,
        "TABLE": names.find_table,
        "VIEW": names.find_view,
        "QUERY": names.find_query,
    }[kind]
    if find(name) is None:
        if tree.args["exists"]:
            return statements.Nothing(f"there is no {kind.lower()} called '{name}'")
        owner = _kind_of(name, names)
        if owner is not None:
            hint = f"'{name}' is a {owner}: write {_drop_words(owner)} {name}"
        else:
            hint = did_you_mean(name, names.known_names(), "add IF EXISTS if that is all right")
        raise refuse(Code.UNKNOWN_NAME, f"{kind.lower()} '{name}' is unknown", tree.this, hint)
    # A view's readers hold its relation, not its name, so a view can always go.
    readers = names.readers(name) if kind != "VIEW" else ()
    if readers:
        listed = ", ".join(f"'{each}'" for each in readers[:5]) + f" and {len(readers) - 5} more" * (len(readers) > 5)
        raise refuse(Code.IN_USE, f"{kind.lower()} '{name}' is read by {listed}", tree.this, "drop what reads it first")
    return statements.Drop(kind, name)


def _bind_explain(tree: dialect.ExplainNode, names: Names) -> statements.Explain:
    format_ = "TEXT"
    for node in tree.args["options"]:
        option = node.name
        hint = f"the option is FORMAT {' | '.join(EXPLAIN_FORMATS)}"
        if option in _EXPLAIN_LATER:
            raise refuse(Code.UNSUPPORTED, f"EXPLAIN ({option}) is not supported", node, hint)
        format_ = option.removeprefix("FORMAT ")
        if format_ == option or format_ not in EXPLAIN_FORMATS:
            raise refuse(Code.BAD_SETTING, f"EXPLAIN has no option '{option}'", node, hint)
    if tree.this is None:
        return statements.Explain(None, format_)
    _check_query(tree.this, names)
    return statements.Explain(tree.this.name, format_)


def _check_query(name: exp.Identifier, names: Names) -> None:
    if names.find_query(name.name) is None:
        hint = did_you_mean(name.name, names.known_names(), "SHOW QUERIES lists what there is")
        raise refuse(Code.UNKNOWN_NAME, f"query '{name.name}' is unknown", name, hint)


def _bind_setting(tree: dialect.SettingNode, names: Names) -> statements.SetOption:
    name, value = tree.this.name, tree.expression.name
    limited = allowed_paths.setting_refusal(name, names.allowed_paths())
    if limited is not None:
        raise refuse(Code.NOT_ALLOWED, limited, tree.this, _WHO_ALLOWS)
    refused = fixed_settings.refusal(name)
    if refused is not None:
        raise refuse(Code.BAD_SETTING, refused, tree.this, "SHOW SETTINGS lists those that can be set")
    if name.startswith("spark."):
        # Spark tells the names of its settings apart by case.
        return statements.SetOption(name, value)
    name = name.lower()
    if name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS, f"settings are {', '.join(SETTINGS)} and spark.*")
        raise refuse(Code.BAD_SETTING, f"setting '{name}' is unknown", tree.this, hint)
    choices = SETTINGS[name]
    if choices is None:
        if not _is_amount(value):
            raise refuse(
                Code.BAD_SETTING,
                f"'{value}' is no value for {name}",
                tree.expression,
                "write a number or a length of time",
            )
    elif not choices:
        return statements.SetOption(name, value)
    elif value.lower() not in choices:
        raise refuse(
            Code.BAD_SETTING, f"'{value}' is no value for {name}", tree.expression, f"it takes {' or '.join(choices)}"
        )
    return statements.SetOption(name, value.lower())


def _is_amount(value: str) -> bool:
    try:
        return value.isdigit() or value.lower() == "off" or durations.parse(value) >= 0
    except durations.BadDuration:
        return False
