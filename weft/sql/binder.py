"""Binds the syntax tree of a statement: the result has every name and type resolved.

    statement = bind(parse(text), names, text)

The rules of the language that need names and types are enforced here: `docs/semantics.md` says what they mean.
`relation_binder.py` binds the SELECTs inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from weft.algebra import Definition, Field, Query, Sink, Stream, Table, View
from weft.algebra.expressions import Call, Column, Literal
from weft.algebra.properties import clock_column
from weft.algebra.types import BIGINT, TIMESTAMP, Kind
from weft.sql import expression_binder, statements
from weft.sql.coercion import bind_type
from weft.sql.from_clause import ticks
from weft.sql.names import Names, NamesInMemory, folder_of, listed, name_refusal, sink_refusal, source_refusal
from weft.sql.problems import Code, Problem, SqlError, did_you_mean
from weft.sql.relation_binder import bind_relation
from weft.sql.scope import Scope, columns_of, refuse
from weft.sql.settings import SETTINGS, fixed_refusal, is_amount, setting_refusal

#: Where answers can be written.
SINKS = ("memory", "console", "parquet", "json", "subscribers")

EXPLAIN_FORMATS = ("TEXT", "VERBOSE", "JSON", "MERMAID", "DOT", "SVG")

_BAD = {"STREAM": Code.BAD_STREAM, "TABLE": Code.BAD_TABLE}

#: The option of a stream that says what becomes of a file that cannot be read as declared.
BAD_FILES = "bad_files"
SET_ASIDE, STOP = "set aside", "stop"

#: The columns that a source always has, whatever is declared.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "kafka": ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
    "rate": ("timestamp", "value"),
    "rate-micro-batch": ("timestamp", "value"),
    "socket": ("value", "timestamp"),
}

#: Those that can only be read as text or bytes.
_TEXTS = frozenset({("kafka", "key"), ("kafka", "value"), ("socket", "value")})

_ADVICE = {"kafka": "read the topic in Python, take value apart with from_json, and hand the DataFrame to loom.stream"}


def bind(tree: exp.Expr, names: Names, text: str) -> statements.Statement:
    """The bound form of a statement. Raises SqlError; registers nothing."""
    match tree.args.get("verb"):
        case "CREATE":
            return _bind_create(tree, names, text)
        case "DROP":
            return _bind_drop(tree, names)
        case "ALTER":
            _check_query(tree.this, names)
            return statements.ResumeQuery(tree.this.name)
        case "SHOW":
            return statements.Show(tree.args["kind"])
        case "DESCRIBE":
            if names.find(tree.this.name) is None:
                otherwise = "SHOW STREAMS and SHOW QUERIES list what there is"
                hint = did_you_mean(tree.this.name, names.known_names(), otherwise)
                raise refuse(Code.UNKNOWN_NAME, f"nothing is called '{tree.this.name}'", tree.this, hint)
            return statements.Describe(tree.this.name)
        case "EXPLAIN":
            return _bind_explain(tree, names)
        case "SET":
            return _bind_setting(tree, names)
    message = "a SELECT alone is not a statement of a stream processor"
    message = message if isinstance(tree, exp.Query) else "this is not a statement"
    raise refuse(Code.UNKNOWN_STATEMENT, message, tree, "write CREATE CONTINUOUS QUERY name AS SELECT …")


def _bind_create(tree: exp.Expr, names: Names, text: str) -> statements.Statement:
    name, kind = tree.this.name, tree.args["kind"]
    if tree.args["unless_exists"] and kind_of(name, names) == kind.lower():
        return statements.NoChange(f"{name} is registered already", names.find(name))
    _check_new(tree.this, names)
    if kind == "STREAM":
        return statements.Create(_bind_stream(tree, names))
    if kind == "TABLE":
        return statements.Create(_bind_table(tree, names))
    sink = _bind_sink(tree, names)
    notes: list[Problem] = []
    relation = bind_relation(tree.expression, names, notes)
    if kind == "VIEW":
        return statements.Create(View(name, text, relation), tuple(notes))
    query = Query(name, relation, clock_column(relation), text, tree.args["sharing"], sink)
    return statements.Create(query, tuple(notes))


def bind_or_repeat(tree: exp.Expr, names: Names, text: str) -> statements.Statement:
    """The bound form of a statement; NoChange for a CREATE of exactly what exists already. Raises SqlError."""
    try:
        return bind(tree, names, text)
    except SqlError as error:
        if any(problem.code is not Code.ALREADY_EXISTS for problem in error.problems):
            raise
        name: str = tree.this.name
        again, known = bind(tree, NamesInMemory(names, dropped={name.lower()}), text), names.find(name)
        if known is None or not isinstance(again, statements.Create) or not _is_same(again.definition, known):
            raise
        return statements.NoChange(f"{name} is registered already", known)


def _is_same(one: Definition, other: Definition) -> bool:
    """Whether two definitions mean the same; their texts may differ in white space and comments."""
    if isinstance(one, View) and isinstance(other, View):
        return one.relation == other.relation
    if isinstance(one, Query) and isinstance(other, Query):
        return replace(one, text="") == replace(other, text="")
    return one == other


def _bind_sink(tree: exp.Expr, names: Names) -> Sink | None:
    format_ = tree.args.get("format")
    if format_ is None:
        return None
    kind, options = format_.name.lower(), tuple(tree.args.get("options") or ())
    if kind not in SINKS:
        hint = did_you_mean(kind, SINKS, f"sinks are {', '.join(SINKS)}")
        raise refuse(Code.UNSUPPORTED, f"sink '{format_.name}' is not supported", format_, hint)
    if kind in ("parquet", "json") and "path" not in dict(options):
        raise refuse(Code.BAD_SETTING, f"INTO {kind} needs a path", format_, f"write INTO {kind} OPTIONS (path '…')")
    for name, _ in options if kind == "subscribers" else ():
        # Subscribers may say where they are: queries with another first hop on the way to them are not merged.
        if name != "hop":
            hint = did_you_mean(name, ["hop"], "write OPTIONS (hop 'berlin') for subscribers that are behind one link")
            raise refuse(Code.BAD_SETTING, f"INTO subscribers has no option '{name}'", format_, hint)
    sink = Sink(kind, options)
    # Files of answers are named by the cycle alone: two queries in one folder would overwrite each other's.
    folder = folder_of(sink)
    writer = None if folder is None else names.find_writer(folder)
    if writer is not None:
        hint = f"give each query a folder of its own, or DROP CONTINUOUS QUERY {writer} first"
        message = f"query '{writer}' writes to '{dict(options)['path']}' already"
        raise refuse(Code.FOLDER_TAKEN, message, format_, hint)
    _check_allowed(sink_refusal(sink, names.allowed_paths()), format_)
    return sink


def _check_allowed(refused: str | None, node: exp.Expr) -> None:
    """Refuse what goes beyond the limits of the project, if that is said."""
    if refused is not None:
        hint = "who owns the project can allow more folders: weft init --allow"
        raise refuse(Code.NOT_ALLOWED, refused, node, hint)


def kind_of(name: str, names: Names) -> str | None:
    """Whether a name is that of a stream, a table, a view or a query; None if it is free."""
    found = names.find(name)
    return None if found is None else type(found).__name__.lower()


def _drop_words(kind: str) -> str:
    return "DROP CONTINUOUS QUERY" if kind == "query" else f"DROP {kind.upper()}"


def _check_new(name: exp.Identifier, names: Names) -> None:
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
            hint = f"choose another name or {_drop_words(owner)} {name.name} first"
        raise refuse(Code.ALREADY_EXISTS, f"a {owner} called '{name.name}' exists already", name, hint)


def _check_source(tree: exp.Expr, fields: list[Field], options: Mapping[str, str]) -> None:
    """Refuse columns that the source of a stream cannot have, and values that its options do not take."""
    node = tree.args["format"]
    source = node.name.lower()
    known = _COLUMNS.get(source, ())
    for column, field in zip(tree.args["columns"], fields, strict=True) if known else ():
        name = next((each for each in known if each.lower() == field.name.lower()), None)
        if name is None:
            otherwise = _ADVICE.get(source, "declare these columns, or choose another source")
            message = f"a stream from {source} has no column '{field.name}', only {', '.join(known)}"
            raise refuse(Code.BAD_STREAM, message, column.this, did_you_mean(field.name, known, otherwise))
        if (source, name) in _TEXTS and field.type.kind not in (Kind.STRING, Kind.BINARY):
            message = f"column '{field.name}' of a stream from {source} is text or bytes, and cannot be {field.type}"
            hint = "declare it as STRING and cast it in the queries"
            raise refuse(Code.BAD_STREAM, message, column.this, hint)
    wanted = {name.lower(): value for name, value in options.items()}.get(BAD_FILES)
    if wanted is not None and wanted not in (SET_ASIDE, STOP):
        hint = f"write {BAD_FILES} '{SET_ASIDE}' or {BAD_FILES} '{STOP}'"
        raise refuse(Code.BAD_SETTING, f"{BAD_FILES} cannot be '{wanted}'", node, hint)


def _bind_stream(tree: exp.Expr, names: Names) -> Stream:
    fields = _bind_columns(tree)
    clock, delay = _bind_watermark(tree, fields)
    format_, options = _bind_source(tree, fields, names)
    backfill = ticks(tree.args["backfill"], clock.type) if "backfill" in tree.args else 0
    return Stream(tree.this.name, tuple(fields), clock.name, delay, format_, options, backfill, "shed" in tree.args)


def _bind_table(tree: exp.Expr, names: Names) -> Table:
    fields = _bind_columns(tree)
    for clause, word in (("watermark", "clock"), ("backfill", "history"), ("shed", "rows that could be left out")):
        if clause in tree.args:
            hint = f"drop {clause.upper()}, or CREATE STREAM if its rows arrive one after the other"
            raise refuse(Code.BAD_TABLE, f"a table has no {word}", tree.args[clause], hint)
    return Table(tree.this.name, tuple(fields), *_bind_source(tree, fields, names))


def _bind_source(tree: exp.Expr, fields: list[Field], names: Names) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The format and the options of what a stream or a table is read from."""
    kind, format_, options = tree.args["kind"], tree.args.get("format"), tuple(tree.args.get("options") or ())
    if format_ is None:
        hint = "add USING parquet OPTIONS (path '…')"
        raise refuse(_BAD[kind], f"a {kind.lower()} needs a source", tree.this, hint)
    if kind == "STREAM":
        _check_source(tree, fields, dict(options))
    _check_allowed(source_refusal(format_.name.lower(), dict(options), names.allowed_paths()), format_)
    return format_.name.lower(), options


def _bind_columns(tree: exp.Expr) -> list[Field]:
    fields: list[Field] = []
    for column in tree.args["columns"]:
        if any(field.name.lower() == column.this.name.lower() for field in fields):
            raise refuse(
                _BAD[tree.args["kind"]], f"column '{column.this.name}' is declared twice", column.this, "rename one"
            )
        fields.append(Field(column.this.name, bind_type(column.args["kind"])))
    return fields


def _bind_watermark(tree: exp.Expr, fields: list[Field]) -> tuple[Field, int]:
    """The clock column and the delay that `WATERMARK FOR c AS c - delay` declares."""
    watermark = tree.args.get("watermark")
    if watermark is None:
        example = next((field.name for field in fields if field.type in (TIMESTAMP, BIGINT)), "ts")
        hint = f"add WATERMARK FOR {example} AS {example} - INTERVAL 5 SECONDS (how late rows may be)"
        raise refuse(Code.BAD_WATERMARK, "a stream needs a clock", tree.this, hint)
    name = watermark.this.name
    clock = next((field for field in fields if field.name.lower() == name.lower()), None)
    if clock is None:
        hint = did_you_mean(name, [field.name for field in fields])
        raise refuse(Code.BAD_WATERMARK, f"clock column '{name}' is not declared", watermark.this, hint)
    if clock.type not in (TIMESTAMP, BIGINT):
        hint = "a clock is a TIMESTAMP, or a BIGINT that grows with the rows"
        raise refuse(Code.BAD_WATERMARK, f"'{name}' is a {clock.type}, which cannot be a clock", watermark.this, hint)
    match expression_binder.bind(watermark.expression, Scope(columns_of("", fields), "WATERMARK")):
        case Column("", clock.name):
            return clock, 0
        case Call("-", (Column("", clock.name), Literal(int() as delay, unit))) if delay >= 0 and unit.kind in (
            Kind.INTERVAL,
            Kind.BIGINT,
        ):
            return clock, delay
    form = "INTERVAL 5 SECONDS" if clock.type == TIMESTAMP else "100"
    message = "this is not the clock minus a constant that is not negative"
    hint = f"write WATERMARK FOR {name} AS {name} - {form}"
    raise refuse(Code.BAD_WATERMARK, message, watermark.expression, hint)


def _bind_drop(tree: exp.Expr, names: Names) -> statements.Statement:
    kind, name = tree.args["kind"], tree.this.name
    owner = kind_of(name, names)
    if owner != kind.lower():
        if tree.args["exists"]:
            return statements.NoChange(f"there is no {kind.lower()} called '{name}'")
        if owner is not None:
            hint = f"'{name}' is a {owner}: write {_drop_words(owner)} {name}"
        else:
            hint = did_you_mean(name, names.known_names(), "add IF EXISTS if that is all right")
        raise refuse(Code.UNKNOWN_NAME, f"{kind.lower()} '{name}' is unknown", tree.this, hint)
    # A view's readers hold its relation, not its name, so a view can always go.
    readers = names.readers(name) if kind != "VIEW" else ()
    if readers:
        message = f"{kind.lower()} '{name}' is read by {listed(readers)}"
        raise refuse(Code.IN_USE, message, tree.this, "drop what reads it first")
    return statements.Drop(kind, name)


def _bind_explain(tree: exp.Expr, names: Names) -> statements.Explain:
    format_ = "TEXT"
    for node in tree.args["options"]:
        option = node.name
        hint = f"the option is FORMAT {' | '.join(EXPLAIN_FORMATS)}"
        format_ = option.removeprefix("FORMAT ")
        if (format_ == option and option != "VERBOSE") or format_ not in EXPLAIN_FORMATS:
            raise refuse(Code.BAD_SETTING, f"EXPLAIN has no option '{option}'", node, hint)
    if tree.this is None:
        return statements.Explain(None, format_)
    _check_query(tree.this, names)
    return statements.Explain(tree.this.name, format_)


def _check_query(name: exp.Identifier, names: Names) -> None:
    if not isinstance(names.find(name.name), Query):
        hint = did_you_mean(name.name, names.known_names(), "SHOW QUERIES lists what there is")
        raise refuse(Code.UNKNOWN_NAME, f"query '{name.name}' is unknown", name, hint)


def _bind_setting(tree: exp.Expr, names: Names) -> statements.SetOption:
    name, value = tree.this.name, tree.expression.name
    _check_allowed(setting_refusal(name, names.allowed_paths()), tree.this)
    refused = fixed_refusal(name)
    if refused is not None:
        raise refuse(Code.BAD_SETTING, refused, tree.this, "SHOW SETTINGS lists those that can be set")
    if name.startswith("spark."):
        # Spark tells the names of its settings apart by case.
        return statements.SetOption(name, value)
    name = name.lower()
    if name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS, f"settings are {', '.join(SETTINGS)} and spark.*")
        raise refuse(Code.BAD_SETTING, f"setting '{name}' is unknown", tree.this, hint)
    choices = SETTINGS[name].choices
    if choices == ():
        return statements.SetOption(name, value)
    if not (is_amount(value) if choices is None else value.lower() in choices):
        hint = "write a number or a length of time" if choices is None else f"it takes {' or '.join(choices)}"
        raise refuse(Code.BAD_SETTING, f"'{value}' is no value for {name}", tree.expression, hint)
    return statements.SetOption(name, value.lower())
