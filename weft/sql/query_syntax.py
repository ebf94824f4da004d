"""The syntax of SELECTs: Spark's SQL as sqlglot reads it, plus windows and trailing options.

    FROM items     trades [RANGE 1 HOUR SLIDE 5 MINUTES], HOP(…), TUMBLE(…), TABLE(HOP(TABLE trades, DESCRIPTOR(ts), …))
    GROUP BY       window(ts, '1 hour', '5 minutes')
    at the end     EMIT EMPTY, RETAIN <interval>

Windows and trailing options hang on their nodes' `meta` (WINDOW, RETAIN, EMIT_EMPTY), since the nodes are sqlglot's.
All functions are read as plain calls; what they mean is decided in `weft/sql/functions.py`, not by sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from weft.sql import durations
from weft.sql.problems import Code, Span, SqlError

#: Keys of `meta` under which windows and trailing options are found.
WINDOW = "weft_window"
RETAIN = "weft_retain"
EMIT_EMPTY = "weft_emit_empty"

#: The key of `meta` under which an expression without a name has one made of its words.
WORDS = "weft_words"

#: Words that may follow a length of time, and are no units.
_AFTER_LENGTHS = frozenset({"SLIDE", "ORIGIN", "USING", "OPTIONS", "WATERMARK"})

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


def _marking(parse: Callable[..., Any], *, keeps_place: bool = True) -> Callable[..., Any]:
    """A parser of sqlglot, whose nodes are marked with the place of all that it reads, unless they keep one they have.

    The place of a column is that of its name.
    """

    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        result = parse(self, *args, **kwargs)
        found = result[1] if isinstance(result, tuple) else result
        for node in found if isinstance(found, list) else [found]:
            marks = isinstance(node, exp.Expr) and not isinstance(node, exp.Column)
            if marks and not (keeps_place and "start" in node.meta):
                self._placed(node, start)
        return result

    return marked


class QueryParser(SparkParser):
    """sqlglot's Spark parser with weft's windows and trailing options, which marks nodes with their places."""

    FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTIONS: ClassVar = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": lambda self: self._parse_case(), "IF": lambda self: self._parse_if()}
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
        token: _marking(parser)
        for token, parser in SparkParser.QUERY_MODIFIER_PARSERS.items()
        if token not in (TokenType.WINDOW, TokenType.MATCH_RECOGNIZE)
    }
    QUERY_MODIFIER_TOKENS: ClassVar = set(QUERY_MODIFIER_PARSERS)

    # -- windows ------------------------------------------------------------------------------------------------------

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        return self._with_window(super()._parse_table_parts(*args, **kwargs))

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        table = super()._parse_table(*args, **kwargs)
        if isinstance(table, (exp.Values, exp.Unnest)):
            self._placed(table, start)
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
        start = self._curr
        window = self._parse_bracketed_window() if isinstance(table, exp.Expr) else None
        if window is not None:
            if WINDOW in table.meta:
                self._refuse(Code.BAD_WINDOW, "this input already has a window", "keep one of the two", start)
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
            hint = "write for example [RANGE 1 HOUR SLIDE 5 MINUTES]"
            self._refuse(Code.BAD_WINDOW, "a window begins with RANGE, ROWS, NOW or UNBOUNDED", hint)
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
        total, first = 0, self._index
        try:
            while self._match_set((TokenType.STRING, TokenType.NUMBER)):
                length = self._prev
                if self._curr and self._curr.text.isalpha() and self._curr.text.upper() not in _AFTER_LENGTHS:
                    self._advance()
                    total += durations.microseconds(length.text.strip(), self._prev.text)
                elif length.token_type == TokenType.STRING:
                    total += durations.parse(length.text)
                elif self._index > first + 1:
                    raise durations.BadDuration(f"{length.text} needs a unit")
                else:
                    ticks = durations.ordinals(length.text)
                    return Duration(this=exp.Literal.number(ticks), unit="").update_positions(length)
        except durations.BadDuration as bad:
            self._refuse(Code.BAD_DURATION, str(bad), durations.ADVICE, self._prev)
        if self._index == first:
            self._refuse(Code.BAD_DURATION, "a length of time is needed here", durations.ADVICE)
        return self._placed(Duration(this=exp.Literal.number(str(total)), unit="microseconds"), start)

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
                    call = (
                        "(ts, '1 hour', '5 minutes'), the range before the slide" if kind == "HOP" else "(ts, '1 hour')"
                    )
                    hint = f"in GROUP BY write window{call}"
                    self._refuse(Code.BAD_WINDOW, f"{kind} goes into FROM and names the stream first", hint, start)
                wrapped = self._match_text_seq("DESCRIPTOR")
                if wrapped:
                    self._match_l_paren()
                clock = self._parse_column()
                if wrapped:
                    self._match_r_paren()
            else:
                durations_.append(self._parse_duration())
        if self._curr.token_type != TokenType.R_PAREN or clock is None:
            hint = f"write {kind}(stream, clock, {'slide, ' * (kind == 'HOP')}range)"
            self._refuse(Code.BAD_WINDOW, f"{kind} is not complete", hint, self._curr or start)
        return WindowTable(kind=kind, this=table, clock=clock, expressions=durations_)

    def _parse_table_of_window(self) -> exp.Expr:
        table = self._parse_function()
        if not isinstance(table, WindowTable):
            hint = "write TABLE(HOP(TABLE s, DESCRIPTOR(ts), …))"
            self._refuse(Code.UNSUPPORTED, "TABLE(…) takes HOP or TUMBLE", hint)
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

    # -- names and places ---------------------------------------------------------------------------------------------

    def _name(self, what: str) -> exp.Identifier:
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            found = f" but found '{self._curr.text}'" if self._curr else ""
            self._refuse(Code.SYNTAX, f"expected {what}{found}", "quote names that are keywords with `backticks`")
        return name

    def _placed(self, node: E, start: Token) -> E:
        """The node, marked as read from the text between `start` and the token before this one."""
        return node.update_positions(line=start.line, col=start.col, start=start.start, end=self._prev.end)

    def _refuse(self, code: Code, message: str, hint: str, token: Token | None = None) -> NoReturn:
        token = token or self._curr or self._prev
        span = Span(token.start, token.end + 1)
        raise SqlError.one(code, message, span, hint)


#: Parsers of sqlglot whose nodes are marked with their places: those that keep one they have, and the others.
_MARKED = {
    True: "select join lateral table_sample pivot cube_or_rollup grouping_sets connect with unary",
    False: "types function_call interval",
}

for _keeps_place, _names in _MARKED.items():
    for _name in _names.split():
        _parser = getattr(SparkParser, f"_parse_{_name}")
        setattr(QueryParser, f"_parse_{_name}", _marking(_parser, keeps_place=_keeps_place))
