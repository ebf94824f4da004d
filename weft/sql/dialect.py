"""weft's SQL: Spark's, plus streams, continuous queries and windows.

sqlglot reads the SQL inside. This module extends its Spark dialect at the points where the language goes further:

    statements     CREATE STREAM, CREATE TABLE, CREATE CONTINUOUS QUERY, CREATE VIEW, DROP, ALTER QUERY, SHOW, DESCRIBE,
                   EXPLAIN, SET
    FROM items     trades [RANGE 1 HOUR SLIDE 5 MINUTES], HOP(…), TUMBLE(…), TABLE(HOP(TABLE trades, DESCRIPTOR(ts), …))
    GROUP BY       window(ts, '1 hour', '5 minutes')
    at the end     EMIT EMPTY, RETAIN <interval>

Windows and trailing options hang on their nodes' `meta` (WINDOW, RETAIN, EMIT_EMPTY), since the nodes are sqlglot's.
All functions are read as plain calls; what they mean is decided in `weft/sql/functions.py`, not by sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from weft.sql import durations, limits, syntax_advice, unsupported
from weft.sql.errors import Code, Span, SqlError

#: The types a column can have, as messages list them.
TYPE_NAMES = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DECIMAL(p, s), FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP"

#: Keys of `meta` under which windows and trailing options are found.
WINDOW = "weft_window"
RETAIN = "weft_retain"
EMIT_EMPTY = "weft_emit_empty"

#: The key of `meta` under which an expression without a name has one made of its words.
WORDS = "weft_words"

E = TypeVar("E", bound=exp.Expr)


class Duration(exp.Expression):
    """A length of time or of an ordinal clock: `this` is a number; `unit` is "microseconds" or "" (no unit given)."""

    arg_types: ClassVar = {"this": True, "unit": True}


class WindowClause(exp.Expression):
    """`[RANGE r SLIDE s ORIGIN o]`, `[ROWS n SLIDE m]`, `[NOW]` or `[UNBOUNDED]`; `kind` is the first word."""

    arg_types: ClassVar = {"kind": True, "range": False, "slide": False, "origin": False}


class WindowTable(exp.Expression):
    """HOP or TUMBLE over a table in FROM: `this` is the table, `clock` the column, `expressions` the durations."""

    arg_types: ClassVar = {"kind": True, "this": True, "clock": True, "expressions": True}


class CreateStream(exp.Expression):
    arg_types: ClassVar = {
        "this": True,
        "columns": True,
        "watermark": False,
        "format": False,
        "options": False,
        "backfill": False,
        "shed": False,
        "unless_exists": False,
    }


class CreateTable(exp.Expression):
    """WATERMARK, BACKFILL and SHED are read so that they can be refused by what they mean."""

    arg_types: ClassVar = CreateStream.arg_types


class Watermark(exp.Expression):
    """WATERMARK FOR `this` AS `expression`."""

    arg_types: ClassVar = {"this": True, "expression": True}


class CreateQuery(exp.Expression):
    arg_types: ClassVar = {
        "this": True,
        "expression": True,
        "sharing": True,
        "format": False,
        "options": False,
        "unless_exists": False,
    }


class CreateView(exp.Expression):
    arg_types: ClassVar = {"this": True, "expression": True, "unless_exists": False}


class DropObject(exp.Expression):
    arg_types: ClassVar = {"kind": True, "this": True, "exists": True}


class ResumeQuery(exp.Expression):
    arg_types: ClassVar = {"this": True}


class ShowObjects(exp.Expression):
    arg_types: ClassVar = {"kind": True}


class DescribeObject(exp.Expression):
    arg_types: ClassVar = {"this": True}


class ExplainPlan(exp.Expression):
    """EXPLAIN [(options)] SHARED, or of the query named `this`."""

    arg_types: ClassVar = {"this": False, "options": True}


class SetOption(exp.Expression):
    arg_types: ClassVar = {"this": True, "expression": True}


def _placing(parser: Callable[[Any], tuple[str, Any]]) -> Callable[[Any], tuple[str, Any]]:
    """The parser of a clause, whose nodes are marked with the place of the whole clause."""

    def placed(self: Any) -> tuple[str, Any]:
        start = self._curr
        key, clause = parser(self)
        for node in clause if isinstance(clause, list) else [clause]:
            if isinstance(node, exp.Expr):
                self._placed(node, start)
        return key, clause

    return placed


class WeftParser(SparkParser):
    """sqlglot's Spark parser with the additions of this module."""

    FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        "CASE": lambda self: self._parse_case(),
        "IF": lambda self: self._parse_if(),
    }
    FUNCTION_PARSERS: ClassVar = {
        "CAST": lambda self: self._parse_cast(True),
        "TRY_CAST": lambda self: self._parse_cast(True),
        "EXTRACT": lambda self: self._parse_extract(),
        "HOP": lambda self: self._parse_window_table("HOP"),
        "TUMBLE": lambda self: self._parse_window_table("TUMBLE"),
        "TABLE": lambda self: self._parse_table_of_window(),
    }
    FUNC_TOKENS: ClassVar = {*SparkParser.FUNC_TOKENS, TokenType.WINDOW, TokenType.TABLE}
    # `WINDOW w AS (…)` is not in the language, `GROUP BY window(…)` is.
    QUERY_MODIFIER_PARSERS: ClassVar = {
        token: _placing(parser)
        for token, parser in SparkParser.QUERY_MODIFIER_PARSERS.items()
        if token not in (TokenType.WINDOW, TokenType.MATCH_RECOGNIZE)
    }
    QUERY_MODIFIER_TOKENS: ClassVar = set(QUERY_MODIFIER_PARSERS)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _parse_statement(self) -> exp.Expr | None:
        for words, parser in _STATEMENTS:
            if self._match_text_seq(*words):
                statement: exp.Expr = parser(self)
                return statement
        if self._curr.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
            return super()._parse_statement()
        opening = self._curr.text.upper()
        if self._next and any(words[0] == opening for words, _ in _STATEMENTS):
            opening = f"{opening} {self._next.text.upper()}"
        advice = unsupported.STATEMENTS.get(opening)
        if advice is None:
            statements = (
                "CREATE STREAM | TABLE | CONTINUOUS QUERY | VIEW, DROP, ALTER QUERY, SHOW, DESCRIBE, EXPLAIN, SET"
            )
            advice = f"statements are {statements}"
        return self._refuse(Code.UNKNOWN_STATEMENT, f"no statement begins with {opening}", advice)

    def _parse_create_stream(self) -> CreateStream:
        unless_exists, name = self._new_name("a name for the stream")
        following = "WATERMARK FOR …, USING …, OPTIONS (…), BACKFILL … and SHED ALLOWED"
        return CreateStream(
            this=name, unless_exists=unless_exists, **self._parse_declaration("CREATE STREAM", following)
        )

    def _parse_create_table(self) -> CreateTable:
        unless_exists, name = self._new_name("a name for the table")
        return CreateTable(
            this=name, unless_exists=unless_exists, **self._parse_declaration("CREATE TABLE", "USING … and OPTIONS (…)")
        )

    def _parse_declaration(self, statement: str, following: str) -> dict[str, Any]:
        """Columns, and in any order what may follow them."""
        self._match_l_paren()
        columns = self._parse_csv(self._parse_typed_column)
        self._match_r_paren()
        clauses: dict[str, Any] = {}
        value: Any
        while self._curr:
            start = self._curr
            if self._match_text_seq("WATERMARK", "FOR"):
                key, value = "watermark", self._parse_watermark()
            elif self._match_text_seq("USING"):
                key, value = "format", self._name("a source format such as parquet, json, csv or rate")
            elif self._match_text_seq("OPTIONS"):
                key, value = "options", self._parse_options()
            elif self._match_text_seq("BACKFILL"):
                key, value = "backfill", self._parse_duration()
            elif self._match_text_seq("SHED"):
                key, value = "shed", self._parse_shed()
            else:
                known = syntax_advice.at_token(self._tokens, self._index)
                if known is not None:
                    self._refuse(Code.UNSUPPORTED, known.message, known.hint)
                message = f"unexpected '{start.text}' in {statement}"
                self._refuse(Code.SYNTAX, message, f"after the columns come {following}")
            if key in clauses:
                self._refuse(Code.SYNTAX, f"{start.text.upper()} is given twice", "keep one of them", start)
            clauses[key] = value
        return {"columns": columns, **clauses}

    def _parse_shed(self) -> exp.Identifier:
        hint = "write SHED ALLOWED if rows may be left out when cycles keep falling behind"
        token = self._curr
        if token is None or token.text.upper() != "ALLOWED":
            self._refuse(Code.SYNTAX, "SHED is not followed by ALLOWED", hint)
        return self._name("ALLOWED")

    def _parse_typed_column(self) -> exp.ColumnDef:
        if self._curr and self._curr.text.upper() == "WATERMARK" and self._next and self._next.text.upper() == "FOR":
            hint = "close the list of columns first: (…) WATERMARK FOR ts AS ts"
            self._refuse(Code.SYNTAX, "WATERMARK FOR comes after the columns", hint)
        name = self._name("a column name")
        token = self._curr
        kind = self._parse_types(allow_identifiers=False)
        if kind is None:
            found = f", not '{token.text}'" if token else ""
            self._refuse(
                Code.UNKNOWN_TYPE,
                f"column '{name.name}' needs a type{found}",
                f"types are {TYPE_NAMES}",
            )
        return exp.ColumnDef(this=name, kind=kind)

    def _parse_watermark(self) -> Watermark:
        column = self._name("the clock column")
        delayed = self._parse_disjunction() if self._match_text_seq("AS") else None
        if delayed is None:
            hint = f"write WATERMARK FOR {column.name} AS {column.name} - INTERVAL …"
            self._refuse(Code.SYNTAX, "WATERMARK FOR needs AS and how late rows may be", hint)
        return Watermark(this=column, expression=delayed)

    def _parse_options(self) -> list[tuple[str, str]]:
        self._match_l_paren()
        options = []
        while not self._match(TokenType.R_PAREN):
            key = self._curr
            if not key or key.token_type == TokenType.COMMA:
                self._refuse(
                    Code.SYNTAX, "OPTIONS needs pairs of a name and a value", "write OPTIONS (path 'data/trades')"
                )
            self._advance()
            words = [key.text]
            while self._match(TokenType.DOT):
                words.append(self._curr.text)
                self._advance()
            self._match(TokenType.EQ)
            value = self._curr
            if value.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE):
                self._refuse(Code.SYNTAX, f"option '{key.text}' needs a value", f"write {key.text} '…'", value or key)
            self._advance()
            options.append((".".join(words), value.text))
            if not self._match(TokenType.COMMA) and self._curr.token_type != TokenType.R_PAREN:
                self._refuse(
                    Code.SYNTAX, "OPTIONS needs a comma or a closing parenthesis here", "write OPTIONS (a '1', b '2')"
                )
        return options

    def _parse_create_query(self) -> CreateQuery:
        unless_exists, name = self._new_name("a name for the query")
        sharing, clauses = True, dict[str, Any]()
        while not self._match_text_seq("AS"):
            if self._match_text_seq("SHARING", "OFF"):
                sharing = False
            elif self._match_text_seq("SHARING", "ON"):
                sharing = True
            elif self._match_text_seq("INTO"):
                clauses["format"] = self._name("a sink: parquet, json, console, memory or subscribers")
                if self._match_text_seq("OPTIONS"):
                    clauses["options"] = self._parse_options()
            else:
                self._refuse(
                    Code.SYNTAX,
                    "CREATE CONTINUOUS QUERY needs AS SELECT …",
                    f"write CREATE CONTINUOUS QUERY {name.name} AS SELECT …",
                )
        clauses["unless_exists"] = unless_exists
        return CreateQuery(this=name, expression=self._parse_query(), sharing=sharing, **clauses)

    def _parse_create_view(self) -> CreateView:
        unless_exists, name = self._new_name("a name for the view")
        if not self._match_text_seq("AS"):
            self._refuse(Code.SYNTAX, "CREATE VIEW needs AS SELECT …", f"write CREATE VIEW {name.name} AS SELECT …")
        return CreateView(this=name, expression=self._parse_query(), unless_exists=unless_exists)

    def _parse_query(self) -> exp.Expr:
        start = self._curr
        query = self._parse_ddl_select()
        if not isinstance(query, exp.Query):
            self._refuse(Code.SYNTAX, "a SELECT is needed here", "write AS SELECT … FROM …", start or self._prev)
        return query

    def _parse_drop_object(self, kind: str) -> DropObject:
        exists = self._match_text_seq("IF", "EXISTS")
        return DropObject(kind=kind, this=self._name("a name"), exists=exists)

    def _parse_alter_query(self) -> ResumeQuery:
        name = self._name("a query's name")
        if not self._match_text_seq("RESUME"):
            self._refuse(
                Code.SYNTAX,
                "ALTER QUERY can only RESUME",
                "write ALTER QUERY name RESUME; to change a query, DROP and CREATE it",
            )
        return ResumeQuery(this=name)

    def _parse_explain(self) -> ExplainPlan:
        options: list[exp.Var] = []
        if self._match(TokenType.L_PAREN):
            while not self._match(TokenType.R_PAREN):
                start, words = self._curr, []
                while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
                    words.append(self._curr.text.upper())
                    self._advance()
                options.append(self._placed(exp.Var(this=" ".join(words)), start))
                if not self._match(TokenType.COMMA) and not self._curr:
                    self._refuse(Code.SYNTAX, "EXPLAIN ( is never closed", "write EXPLAIN (FORMAT JSON) SHARED")
        if self._match_text_seq("SHARED"):
            return ExplainPlan(options=options)
        if not self._match_text_seq("QUERY"):
            self._refuse(Code.SYNTAX, "EXPLAIN what?", "write EXPLAIN SHARED or EXPLAIN QUERY name")
        return ExplainPlan(this=self._name("a query's name"), options=options)

    def _parse_set_option(self) -> SetOption:
        name = self._name("a setting's name")
        words = [name.name]
        while self._match(TokenType.DOT):
            words.append(self._curr.text)
            self._advance()
        name.set("this", ".".join(words))
        if not self._match(TokenType.EQ):
            self._refuse(Code.SYNTAX, "SET needs a value", f"write SET {name.name} = …")
        value = self._curr
        if not value:
            self._refuse(Code.SYNTAX, "SET needs a value", f"write SET {name.name} = …", self._prev)
        end = value
        while self._curr:
            end = self._curr
            self._advance()
        text = value.text if end is value else self._find_sql(value, end)
        return SetOption(this=name, expression=exp.Literal.string(text).update_positions(value))

    def _new_name(self, what: str) -> tuple[bool, exp.Identifier]:
        """Whether IF NOT EXISTS is said, and the name of what is created."""
        return bool(self._match_text_seq("IF", "NOT", "EXISTS")), self._name(what)

    def _name(self, what: str) -> exp.Identifier:
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            found = f" but found '{self._curr.text}'" if self._curr else ""
            self._refuse(Code.SYNTAX, f"expected {what}{found}", "quote names that are keywords with `backticks`")
        return name

    # -- windows ------------------------------------------------------------------------------------------------------

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        return self._with_window(super()._parse_table_parts(*args, **kwargs))

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        table = super()._parse_table(*args, **kwargs)
        if isinstance(table, (exp.Values, exp.Unnest)):
            self._placed_once(table, start)
        return self._with_window(table)

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        window = self._parse_bracketed_window()
        subquery = super()._parse_subquery(this, parse_alias)
        if subquery is not None and window is not None:
            subquery.meta[WINDOW] = window
        return subquery

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        return None if self._at_trailing_option() else super()._parse_table_alias(*args, **kwargs)

    def _with_window(self, table: Any) -> Any:
        """Attaches the window that may follow a FROM item, before or after its alias."""
        if isinstance(table, exp.Expr):
            start = self._curr
            window = self._parse_bracketed_window()
            if window is not None and WINDOW in table.meta:
                self._refuse(Code.BAD_WINDOW, "this input already has a window", "keep one of the two", start)
            if window is not None:
                table.meta[WINDOW] = window
        return table

    def _parse_bracketed_window(self) -> WindowClause | None:
        if self._curr.token_type != TokenType.L_BRACKET:
            return None
        start = self._curr
        self._advance()
        if self._match_text_seq("NOW"):
            clause = WindowClause(kind="NOW")
        elif self._match_text_seq("RANGE", "UNBOUNDED") or self._match_text_seq("UNBOUNDED"):
            clause = WindowClause(kind="UNBOUNDED")
        elif self._match_text_seq("RANGE") or self._match_text_seq("ROWS"):
            kind = self._prev.text.upper()
            clause = WindowClause(kind=kind, range=self._parse_duration())
            if self._match_text_seq("SLIDE"):
                clause.set("slide", self._parse_duration())
            if self._match_text_seq("ORIGIN"):
                clause.set("origin", self._parse_origin())
        else:
            self._refuse(
                Code.BAD_WINDOW,
                "a window begins with RANGE, ROWS, NOW or UNBOUNDED",
                "write for example [RANGE 1 HOUR SLIDE 5 MINUTES]",
            )
        if not self._match(TokenType.R_BRACKET):
            found = f"unexpected '{self._curr.text}'" if self._curr else "the window is never closed"
            self._refuse(Code.BAD_WINDOW, found, "a window looks like [RANGE 1 HOUR SLIDE 5 MINUTES ORIGIN 30 SECONDS]")
        return self._placed(clause, start)

    def _parse_origin(self) -> exp.Expr:
        if self._match_text_seq("TIMESTAMP"):
            token = self._curr
            if not self._match(TokenType.STRING):
                self._refuse(Code.BAD_LITERAL, "TIMESTAMP needs a text", "write TIMESTAMP '2024-01-01 00:00:00'")
            return exp.Literal.string(token.text).update_positions(token)
        return self._parse_duration()

    def _parse_duration(self) -> Duration:
        """`5 MINUTES`, `1 HOUR 30 MINUTES` or `'5 minutes'`, also after INTERVAL; or a bare number of ticks."""
        start = self._curr
        self._match(TokenType.INTERVAL)
        total, parts = 0, 0
        try:
            while True:
                token = self._curr
                if token.token_type == TokenType.STRING:
                    self._advance()
                    total += (
                        durations.microseconds(token.text.strip(), self._unit())
                        if self._at_unit()
                        else durations.parse(token.text)
                    )
                elif token.token_type == TokenType.NUMBER:
                    self._advance()
                    number = token.text
                    if not self._at_unit():
                        if parts:
                            raise durations.BadDuration(f"{number} needs a unit")
                        ticks = durations.ordinals(number)
                        return Duration(this=exp.Literal.number(ticks), unit="").update_positions(token)
                    total += durations.microseconds(number, self._unit())
                elif parts:
                    break
                else:
                    self._refuse(Code.BAD_DURATION, "a length of time is needed here", durations.ADVICE)
                parts += 1
        except durations.BadDuration as bad:
            self._refuse(Code.BAD_DURATION, str(bad), durations.ADVICE, self._prev)
        return self._placed(Duration(this=exp.Literal.number(str(total)), unit="microseconds"), start)

    def _at_unit(self) -> bool:
        return (
            bool(self._curr)
            and self._curr.text.isalpha()
            and self._curr.text.upper() not in ("SLIDE", "ORIGIN", "USING", "OPTIONS", "WATERMARK")
        )

    def _unit(self) -> str:
        if not self._at_unit():
            raise durations.BadDuration("a unit is missing")
        self._advance()
        return str(self._prev.text)

    def _parse_window_table(self, kind: str) -> WindowTable:
        """The inside of `HOP(trades, ts, slide, range)`, also as `HOP(TABLE trades, DESCRIPTOR(ts), slide, range)`."""
        start = self._tokens[self._index - 2]
        self._match(TokenType.TABLE)
        table = super()._parse_table_parts()
        durations_: list[Duration] = []
        clock = None
        while self._match(TokenType.COMMA):
            if clock is None:
                if self._curr.token_type in (TokenType.INTERVAL, TokenType.STRING, TokenType.NUMBER):
                    self._refuse_window_in_group_by(kind, start)
                wrapped = self._match_text_seq("DESCRIPTOR")
                if wrapped:
                    self._match_l_paren()
                clock = self._parse_column()
                if wrapped:
                    self._match_r_paren()
            else:
                durations_.append(self._parse_duration())
        if self._curr.token_type != TokenType.R_PAREN or clock is None:
            form = "HOP(stream, clock, slide, range)" if kind == "HOP" else "TUMBLE(stream, clock, range)"
            self._refuse(Code.BAD_WINDOW, f"{kind} is not complete", f"write {form}", self._curr or start)
        return WindowTable(kind=kind, this=table, clock=clock, expressions=durations_)

    def _refuse_window_in_group_by(self, kind: str, start: Token) -> NoReturn:
        form = (
            "window(ts, '1 hour', '5 minutes'), the range before the slide" if kind == "HOP" else "window(ts, '1 hour')"
        )
        message = f"{kind} goes into FROM and names the stream first"
        self._refuse(Code.BAD_WINDOW, message, f"in GROUP BY write {form}", start)

    def _parse_table_of_window(self) -> exp.Expr:
        table = self._parse_function()
        if not isinstance(table, WindowTable):
            self._refuse(
                Code.UNSUPPORTED, "TABLE(…) takes HOP or TUMBLE", "write TABLE(HOP(TABLE s, DESCRIPTOR(ts), …))"
            )
        return table

    # -- trailing options ---------------------------------------------------------------------------------------------

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        while isinstance(this, exp.Query) and self._at_trailing_option():
            start = self._curr
            key = EMIT_EMPTY if self._match_text_seq("EMIT", "EMPTY") else RETAIN
            if key in this.meta:
                self._refuse(Code.SYNTAX, f"{start.text.upper()} is given twice", "keep one of them", start)
            if key == EMIT_EMPTY:
                option: exp.Expr = exp.true()
            else:
                self._advance()
                option = exp.Null() if self._match_text_seq("UNBOUNDED") else self._parse_duration()
            this.meta[key] = self._placed(option, start)
        return this

    def _at_trailing_option(self) -> bool:
        word, after = self._curr.text.upper(), self._next
        if word == "EMIT":
            return bool(after.text.upper() == "EMPTY")
        return word == "RETAIN" and (
            after.token_type in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL)
            or after.text.upper() == "UNBOUNDED"
        )

    # -- names of columns ---------------------------------------------------------------------------------------------

    def _parse_expression(self) -> exp.Expr | None:
        start = self._index
        node = super()._parse_expression()
        if node is not None and not isinstance(node, (exp.Alias, exp.Column)):
            text = " ".join(token.text for token in self._tokens[start : self._index])
            node.meta[WORDS] = "_".join(re.findall(r"\w+", text)).lower()
        return node

    # -- places -------------------------------------------------------------------------------------------------------

    def _parse_select(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_select(*args, **kwargs), start)

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_join(*args, **kwargs), start)

    def _parse_lateral(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_lateral(*args, **kwargs), start)

    def _parse_table_sample(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_table_sample(*args, **kwargs), start)

    def _parse_pivot(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_pivot(*args, **kwargs), start)

    def _parse_cube_or_rollup(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_cube_or_rollup(*args, **kwargs), start)

    def _parse_grouping_sets(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_grouping_sets(*args, **kwargs), start)

    def _parse_connect(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_connect(*args, **kwargs), start)

    def _parse_with(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_with(*args, **kwargs), start)

    def _parse_unary(self) -> Any:
        start = self._curr
        return self._placed_once(super()._parse_unary(), start)

    def _placed_once(self, node: Any, start: Token) -> Any:
        """The node with its place, if it has none of its own yet."""
        if isinstance(node, exp.Expr) and "start" not in node.meta and not isinstance(node, exp.Column):
            self._placed(node, start)
        return node

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        kind = super()._parse_types(*args, **kwargs)
        return self._placed(kind, start) if isinstance(kind, exp.DataType) else kind

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        start = self._curr
        call = super()._parse_function_call(*args, **kwargs)
        return self._placed(call, start) if call is not None else None

    def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        interval = super()._parse_interval(*args, **kwargs)
        return self._placed(interval, start) if isinstance(interval, exp.Interval) else interval

    def _placed(self, node: E, start: Token) -> E:
        """The node, marked as read from the text between `start` and the token before this one."""
        return node.update_positions(line=start.line, col=start.col, start=start.start, end=self._prev.end)

    def _refuse(self, code: Code, message: str, hint: str, token: Token | None = None) -> NoReturn:
        token = token or self._curr or self._prev
        span = Span(token.start, token.end + 1)
        raise SqlError.one(code, message, span, hint)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[Any], exp.Expr]], ...] = (
    (("CREATE", "STREAM"), WeftParser._parse_create_stream),
    (("CREATE", "TABLE"), WeftParser._parse_create_table),
    (("CREATE", "CONTINUOUS", "QUERY"), WeftParser._parse_create_query),
    (("CREATE", "VIEW"), WeftParser._parse_create_view),
    (("DROP", "STREAM"), lambda self: self._parse_drop_object("STREAM")),
    (("DROP", "TABLE"), lambda self: self._parse_drop_object("TABLE")),
    (("DROP", "CONTINUOUS", "QUERY"), lambda self: self._parse_drop_object("QUERY")),
    (("DROP", "VIEW"), lambda self: self._parse_drop_object("VIEW")),
    (("ALTER", "QUERY"), WeftParser._parse_alter_query),
    (("ALTER", "CONTINUOUS", "QUERY"), WeftParser._parse_alter_query),
    (("SHOW", "STREAMS"), lambda self: ShowObjects(kind="STREAMS")),
    (("SHOW", "TABLES"), lambda self: ShowObjects(kind="TABLES")),
    (("SHOW", "QUERIES"), lambda self: ShowObjects(kind="QUERIES")),
    (("SHOW", "VIEWS"), lambda self: ShowObjects(kind="VIEWS")),
    (("SHOW", "SETTINGS"), lambda self: ShowObjects(kind="SETTINGS")),
    (("DESCRIBE",), lambda self: DescribeObject(this=self._name("the name of a stream, table, view or query"))),
    (("EXPLAIN",), WeftParser._parse_explain),
    (("SET",), WeftParser._parse_set_option),
)


class Weft(Spark):
    """Spark's dialect with weft's parser."""

    class Tokenizer(Spark.Tokenizer):
        # These words begin statements of ours; sqlglot would take the rest of the line as an opaque command.
        COMMANDS: ClassVar = set()
        # 'it''s' is one text, as in Spark 4; sqlglot's Spark takes it for two.
        STRING_ESCAPES: ClassVar = ["'", '"', "\\"]

    Parser = WeftParser


_DIALECT = Weft()


def parse(statement: str) -> exp.Expr:
    """The syntax tree of one statement. Raises SqlError; positions count from the start of `statement`."""
    try:
        tokens = _DIALECT.tokenize(statement)
    except SqlglotError:
        raise _unterminated(statement) from None
    if not tokens:
        raise SqlError.one(Code.SYNTAX, "there is no statement here", Span(0, len(statement)), "write one")
    limits.check_tokens(tokens)
    _check_names(tokens)
    parser = WeftParser(dialect=_DIALECT)
    try:
        trees = parser.parse(tokens, statement)
    except SqlError:
        raise
    except ParseError as bad:
        raise _known_syntax(parser) or _syntax_error(bad, parser, statement) from None
    except RecursionError:
        # Whoever called has used much of the stack already.
        raise limits.too_deep(_current_span(parser, statement)) from None
    except Exception as failure:
        # sqlglot stumbles over some malformed texts instead of refusing them; the place it stopped at is a good guess.
        error = _known_syntax(parser) or _at_current_token(parser, statement, "this cannot be read as SQL")
        raise error from failure
    if len(trees) != 1 or trees[0] is None:
        raise SqlError.one(Code.SYNTAX, "one statement is expected", Span(0, len(statement)), "separate them with ;")
    limits.check_tree(trees[0])
    return trees[0]


def _check_names(tokens: Sequence[Token]) -> None:
    """Refuse quoted names that could be taken for weft's own, or that cannot be stored."""
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and (not token.text or "\0" in token.text):
            message = "a name cannot contain a NUL character" if token.text else "a name cannot be empty"
            raise SqlError.one(Code.BAD_NAME, message, Span(token.start, token.end + 1), "choose another one")


#: Quotes and comments that are closed, or else the opening of one that is not.
_QUOTED = re.compile(
    r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<open>['"`]|/\*)""", re.DOTALL
)


def _unterminated(statement: str) -> SqlError:
    opened = (match.start("open") for match in _QUOTED.finditer(statement) if match["open"])
    start = next(opened, 0)
    what = "comment" if statement.startswith("/*", start) else "quote"
    return SqlError.one(Code.UNTERMINATED, f"this {what} is never closed", Span(start, start + 1), "close it")


def _known_syntax(parser: WeftParser) -> SqlError | None:
    """The error for a spelling of another system at the place where the parser stopped, if it is one that is known."""
    advice = syntax_advice.advice(parser._tokens, parser._index)
    if advice is None:
        return None
    token = parser._tokens[advice.at]
    return SqlError.one(Code.UNSUPPORTED, advice.message, Span(token.start, token.end + 1), advice.hint)


def _syntax_error(bad: ParseError, parser: WeftParser, statement: str) -> SqlError:
    description = str(bad.errors[0].get("description") or "") if bad.errors else str(bad)
    if description.startswith("Expecting"):
        description = f"expected {description.removeprefix('Expecting').strip()}"
    elif "Unexpected token" in description or "Required keyword" in description or not description:
        token = parser._curr
        description = f"unexpected '{token.text}'" if token else "the statement ends too early"
    elif description.startswith("Expected table name"):
        description = "the name of a stream, view or query is needed here"
    else:
        description = description[0].lower() + description[1:]
    return _at_current_token(parser, statement, description)


def _at_current_token(parser: WeftParser, statement: str, message: str) -> SqlError:
    return SqlError.one(Code.SYNTAX, message, _current_span(parser, statement), "check the text just before this")


def _current_span(parser: WeftParser, statement: str) -> Span:
    token = parser._curr or parser._prev
    return Span(token.start, token.end + 1) if token else Span(0, len(statement))
