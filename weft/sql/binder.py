"""Binds the syntax tree of a statement: the result has every name and type resolved.

    statement = bind(parse(text), names, text)

The rules of the language that need names and types are enforced here: `docs/semantics.md` says what they mean.
`declarations.py` binds streams and tables, `relation_binder.py` the SELECTs inside.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from weft.algebra import Query, Sink
from weft.algebra.properties import clock_column
from weft.sql import dialect, statements
from weft.sql.declarations import WHO_ALLOWS, bind_stream, bind_table, check_new, drop_words, kind_of
from weft.sql.names import LayeredNames, Names
from weft.sql.paths import folder_of, setting_refusal, sink_refusal
from weft.sql.problems import Code, Problem, SqlError, did_you_mean
from weft.sql.relation_binder import bind_relation
from weft.sql.scope import refuse
from weft.sql.settings import SETTINGS, fixed_refusal, is_amount

#: Where answers can be written.
SINKS = ("memory", "console", "parquet", "json", "subscribers")

EXPLAIN_FORMATS = ("TEXT", "JSON", "MERMAID", "DOT", "SVG")

#: Options of EXPLAIN that others have, and for which there is nothing to show yet.
_EXPLAIN_LATER = ("VERBOSE",)

_CREATED: dict[type, str] = {
    dialect.StreamNode: "stream",
    dialect.TableNode: "table",
    dialect.ViewNode: "view",
    dialect.QueryNode: "query",
}


def bind(tree: exp.Expr, names: Names, text: str) -> statements.Statement:
    """The bound form of a statement. Raises SqlError; registers nothing."""
    if tree.args.get("unless_exists") and kind_of(tree.this.name, names) == _CREATED[type(tree)]:
        return statements.NoChange(f"{tree.this.name} is registered already")
    if isinstance(tree, dialect.StreamNode):
        return statements.CreateStream(bind_stream(tree, names), text)
    if isinstance(tree, dialect.TableNode):
        return statements.CreateTable(bind_table(tree, names), text)
    if isinstance(tree, dialect.QueryNode):
        return _bind_query(tree, names, text)
    if isinstance(tree, dialect.ViewNode):
        check_new(tree.this, names)
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
        if kind_of(tree.this.name, names) is None:
            hint = did_you_mean(tree.this.name, names.known_names(), "SHOW STREAMS and SHOW QUERIES list what there is")
            raise refuse(Code.UNKNOWN_NAME, f"nothing is called '{tree.this.name}'", tree.this, hint)
        return statements.Describe(tree.this.name)
    if isinstance(tree, dialect.ExplainNode):
        return _bind_explain(tree, names)
    if isinstance(tree, dialect.SettingNode):
        return _bind_setting(tree, names)
    if isinstance(tree, exp.Query):
        hint = "write CREATE CONTINUOUS QUERY name AS SELECT …"
        raise refuse(Code.UNKNOWN_STATEMENT, "a SELECT alone is not a statement of a stream processor", tree, hint)
    hint = "write CREATE CONTINUOUS QUERY name AS SELECT …"
    raise refuse(Code.UNKNOWN_STATEMENT, "this is not a statement", tree, hint)


def bind_or_repeat(tree: exp.Expr, names: Names, text: str) -> statements.Statement:
    """The bound form of a statement; Nothing for a CREATE of exactly what exists already. Raises SqlError."""
    try:
        return bind(tree, names, text)
    except SqlError as error:
        if any(problem.code is not Code.ALREADY_EXISTS for problem in error.problems):
            raise
        name: str = tree.this.name
        again = bind(tree, LayeredNames(names, dropped={name.lower()}), text)
        if not _is_registered(again, names, name):
            raise
        return statements.NoChange(f"{name} is registered already")


def _is_registered(statement: statements.Statement, names: Names, name: str) -> bool:
    if isinstance(statement, statements.CreateStream):
        return statement.stream == names.find_stream(name)
    if isinstance(statement, statements.CreateTable):
        return statement.table == names.find_table(name)
    if isinstance(statement, statements.CreateView):
        return statement.relation == names.find_view(name)
    query = names.find_query(name)
    # The text may differ in white space and comments; what it means may not.
    return (
        isinstance(statement, statements.CreateQuery)
        and query is not None
        and replace(statement.query, text="") == replace(query, text="")
    )


def _bind_query(tree: dialect.QueryNode, names: Names, text: str) -> statements.CreateQuery:
    check_new(tree.this, names)
    sink = None
    format_ = tree.args.get("format")
    if format_ is not None:
        kind = format_.name.lower()
        options = tuple(tree.args.get("options") or ())
        if kind not in SINKS:
            hint = did_you_mean(kind, SINKS, f"sinks are {', '.join(SINKS)}")
            raise refuse(Code.UNSUPPORTED, f"sink '{format_.name}' is not supported", format_, hint)
        if kind in ("parquet", "json") and "path" not in dict(options):
            hint = f"write INTO {kind} OPTIONS (path '…')"
            raise refuse(Code.BAD_SETTING, f"INTO {kind} needs a path", format_, hint)
        if kind == "subscribers":
            _check_hop(options, format_)
        sink = Sink(kind, options)
        _check_folder(sink, names, format_)
        refused = sink_refusal(sink, names.allowed_paths())
        if refused is not None:
            raise refuse(Code.NOT_ALLOWED, refused, format_, WHO_ALLOWS)
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
    find = {"STREAM": names.find_stream, "TABLE": names.find_table, "VIEW": names.find_view, "QUERY": names.find_query}[
        kind
    ]
    if find(name) is None:
        if tree.args["exists"]:
            return statements.NoChange(f"there is no {kind.lower()} called '{name}'")
        owner = kind_of(name, names)
        if owner is not None:
            hint = f"'{name}' is a {owner}: write {drop_words(owner)} {name}"
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
    limited = setting_refusal(name, names.allowed_paths())
    if limited is not None:
        raise refuse(Code.NOT_ALLOWED, limited, tree.this, WHO_ALLOWS)
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
    if choices is None:
        if not is_amount(value):
            hint = "write a number or a length of time"
            raise refuse(Code.BAD_SETTING, f"'{value}' is no value for {name}", tree.expression, hint)
    elif not choices:
        return statements.SetOption(name, value)
    elif value.lower() not in choices:
        hint = f"it takes {' or '.join(choices)}"
        raise refuse(Code.BAD_SETTING, f"'{value}' is no value for {name}", tree.expression, hint)
    return statements.SetOption(name, value.lower())
