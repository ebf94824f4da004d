"""weft's SQL: Spark's, plus streams, continuous queries and windows.

sqlglot reads the SQL inside. This module adds the statements, `query_syntax.py` what is new inside a SELECT:

    CREATE STREAM, CREATE TABLE, CREATE CONTINUOUS QUERY, CREATE VIEW, DROP, ALTER QUERY, SHOW, DESCRIBE, EXPLAIN, SET
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from weft.sql import limits, unsupported
from weft.sql.problems import Code, Span, SqlError
from weft.sql.query_syntax import QueryParser

#: The types a column can have, as messages list them.
TYPE_NAMES = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DECIMAL(p, s), FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP"


class StatementNode(exp.Expression):
    """A statement: `verb` and `kind` are the first and the last of the words that begin it, `this` is what it names.

    Its other arguments are what may follow. For a table, WATERMARK, BACKFILL and SHED are among them, so that they can
    be refused by what they mean.
    """


class WeftParser(QueryParser):
    """The parser of weft's statements."""

    def _parse_statement(self) -> exp.Expr | None:
        for opening, parser in _STATEMENTS.items():
            words = opening.split()
            if self._match_text_seq(*words):
                node = StatementNode(verb=words[0], kind=words[-1])
                if words[0] == "CREATE":
                    node.set("unless_exists", bool(self._match_text_seq("IF", "NOT", "EXISTS")))
                    node.set("this", self._name(f"a name for the {words[-1].lower()}"))
                parser(self, node)
                return node
        if self._curr.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
            return super()._parse_statement()
        opening = self._curr.text.upper()
        if self._next and any(words.startswith(f"{opening} ") for words in _STATEMENTS):
            opening = f"{opening} {self._next.text.upper()}"
        advice = unsupported.STATEMENTS.get(opening)
        if advice is None:
            advice = (
                "statements are CREATE STREAM | TABLE | CONTINUOUS QUERY | VIEW, DROP, ALTER QUERY, SHOW, DESCRIBE, "
                "EXPLAIN, SET"
            )
        return self._refuse(Code.UNKNOWN_STATEMENT, f"no statement begins with {opening}", advice)

    def _parse_declaration(self, node: StatementNode) -> None:
        """The columns of a stream or table, and in any order what may follow them."""
        kind = node.args["kind"]
        self._match_l_paren()
        node.set("columns", self._parse_csv(self._parse_typed_column))
        self._match_r_paren()
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
                known = unsupported.at_token(self._tokens, self._index)
                if known is not None:
                    self._refuse(Code.UNSUPPORTED, known.message, known.hint)
                message = f"unexpected '{start.text}' in CREATE {kind}"
                self._refuse(Code.SYNTAX, message, f"after the columns come {_AFTER_COLUMNS[kind]}")
            if key in node.args:
                self._refuse(Code.SYNTAX, f"{start.text.upper()} is given twice", "keep one of them", start)
            node.set(key, value)

    def _parse_shed(self) -> exp.Identifier:
        if not self._curr or self._curr.text.upper() != "ALLOWED":
            hint = "write SHED ALLOWED if rows may be left out when cycles keep falling behind"
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
            self._refuse(Code.UNKNOWN_TYPE, f"column '{name.name}' needs a type{found}", f"types are {TYPE_NAMES}")
        return exp.ColumnDef(this=name, kind=kind)

    def _parse_watermark(self) -> exp.WatermarkColumnConstraint:
        column = self._name("the clock column")
        delayed = self._parse_disjunction() if self._match_text_seq("AS") else None
        if delayed is None:
            hint = f"write WATERMARK FOR {column.name} AS {column.name} - INTERVAL …"
            self._refuse(Code.SYNTAX, "WATERMARK FOR needs AS and how late rows may be", hint)
        return exp.WatermarkColumnConstraint(this=column, expression=delayed)

    def _parse_options(self) -> list[tuple[str, str]]:
        self._match_l_paren()
        options = []
        while not self._match(TokenType.R_PAREN):
            key = self._curr
            if not key or key.token_type == TokenType.COMMA:
                hint = "write OPTIONS (path 'data/trades')"
                self._refuse(Code.SYNTAX, "OPTIONS needs pairs of a name and a value", hint)
            self._advance()
            name = self._dotted(key.text)
            self._match(TokenType.EQ)
            value = self._curr
            if value.token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE):
                self._refuse(Code.SYNTAX, f"option '{key.text}' needs a value", f"write {key.text} '…'", value or key)
            self._advance()
            options.append((name, value.text))
            if not self._match(TokenType.COMMA) and self._curr.token_type != TokenType.R_PAREN:
                hint = "write OPTIONS (a '1', b '2')"
                self._refuse(Code.SYNTAX, "OPTIONS needs a comma or a closing parenthesis here", hint)
        return options

    def _parse_create_query(self, node: StatementNode) -> None:
        name, sharing = node.this.name, True
        while not self._match_text_seq("AS"):
            if self._match_text_seq("SHARING", "OFF"):
                sharing = False
            elif self._match_text_seq("SHARING", "ON"):
                sharing = True
            elif self._match_text_seq("INTO"):
                node.set("format", self._name("a sink: parquet, json, console, memory or subscribers"))
                if self._match_text_seq("OPTIONS"):
                    node.set("options", self._parse_options())
            else:
                hint = f"write CREATE CONTINUOUS QUERY {name} AS SELECT …"
                self._refuse(Code.SYNTAX, "CREATE CONTINUOUS QUERY needs AS SELECT …", hint)
        node.set("sharing", sharing)
        node.set("expression", self._parse_query())

    def _parse_create_view(self, node: StatementNode) -> None:
        if not self._match_text_seq("AS"):
            hint = f"write CREATE VIEW {node.this.name} AS SELECT …"
            self._refuse(Code.SYNTAX, "CREATE VIEW needs AS SELECT …", hint)
        node.set("expression", self._parse_query())

    def _parse_query(self) -> exp.Expr:
        start = self._curr
        query = self._parse_ddl_select()
        if not isinstance(query, exp.Query):
            self._refuse(Code.SYNTAX, "a SELECT is needed here", "write AS SELECT … FROM …", start or self._prev)
        return query

    def _parse_drop_object(self, node: StatementNode) -> None:
        node.set("exists", bool(self._match_text_seq("IF", "EXISTS")))
        node.set("this", self._name("a name"))

    def _parse_alter_query(self, node: StatementNode) -> None:
        node.set("this", self._name("a query's name"))
        if not self._match_text_seq("RESUME"):
            hint = "write ALTER QUERY name RESUME; to change a query, DROP and CREATE it"
            self._refuse(Code.SYNTAX, "ALTER QUERY can only RESUME", hint)

    def _parse_explain(self, node: StatementNode) -> None:
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
        node.set("options", options)
        if self._match_text_seq("SHARED"):
            return
        if not self._match_text_seq("QUERY"):
            self._refuse(Code.SYNTAX, "EXPLAIN what?", "write EXPLAIN SHARED or EXPLAIN QUERY name")
        node.set("this", self._name("a query's name"))

    def _parse_set_option(self, node: StatementNode) -> None:
        name = self._name("a setting's name")
        name.set("this", self._dotted(name.name))
        node.set("this", name)
        if not self._match(TokenType.EQ) or not self._curr:
            self._refuse(Code.SYNTAX, "SET needs a value", f"write SET {name.name} = …")
        value = end = self._curr
        while self._curr:
            end = self._curr
            self._advance()
        text = value.text if end is value else self._find_sql(value, end)
        node.set("expression", exp.Literal.string(text).update_positions(value))

    def _dotted(self, word: str) -> str:
        """A name that begins with a word, and goes on as long as there are dots."""
        while self._match(TokenType.DOT):
            word += f".{self._curr.text}"
            self._advance()
        return word


#: What may follow the columns of a declaration, as messages say it.
_AFTER_COLUMNS = {
    "STREAM": "WATERMARK FOR …, USING …, OPTIONS (…), BACKFILL … and SHED ALLOWED",
    "TABLE": "USING … and OPTIONS (…)",
}

#: The words that begin a statement, and what reads the rest of it.
_STATEMENTS: dict[str, Callable[[Any, StatementNode], None]] = {
    **dict.fromkeys(("CREATE STREAM", "CREATE TABLE"), WeftParser._parse_declaration),
    "CREATE CONTINUOUS QUERY": WeftParser._parse_create_query,
    "CREATE VIEW": WeftParser._parse_create_view,
    **dict.fromkeys(("DROP STREAM", "DROP TABLE", "DROP CONTINUOUS QUERY", "DROP VIEW"), WeftParser._parse_drop_object),
    **dict.fromkeys(("ALTER QUERY", "ALTER CONTINUOUS QUERY"), WeftParser._parse_alter_query),
    **dict.fromkeys(
        ("SHOW STREAMS", "SHOW TABLES", "SHOW QUERIES", "SHOW VIEWS", "SHOW SETTINGS"), lambda self, node: None
    ),
    "DESCRIBE": lambda self, node: node.set("this", self._name("the name of a stream, table, view or query")),
    "EXPLAIN": WeftParser._parse_explain,
    "SET": WeftParser._parse_set_option,
}


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
    except RecursionError:
        # The caller has used much of the stack already.
        raise limits.too_deep(_current_span(parser, statement)) from None
    except Exception as failure:
        # sqlglot stumbles over some malformed texts instead of refusing them; the place it stopped at is a good guess.
        raise _syntax_error(failure, parser, statement) from failure
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
    start = next((match.start() for match in _QUOTED.finditer(statement) if match["open"]), 0)
    what = "comment" if statement.startswith("/*", start) else "quote"
    return SqlError.one(Code.UNTERMINATED, f"this {what} is never closed", Span(start, start + 1), "close it")


def _syntax_error(failure: Exception, parser: WeftParser, statement: str) -> SqlError:
    advice = unsupported.advice(parser._tokens, parser._index)
    if advice is not None:
        # It is a spelling of another system.
        token = parser._tokens[advice.at]
        return SqlError.one(Code.UNSUPPORTED, advice.message, Span(token.start, token.end + 1), advice.hint)
    said = "this cannot be read as SQL"
    if isinstance(failure, ParseError):
        said = str(failure.errors[0].get("description") or "") if failure.errors else str(failure)
    if said.startswith("Expecting"):
        said = f"expected {said.removeprefix('Expecting').strip()}"
    elif "Unexpected token" in said or "Required keyword" in said or not said:
        said = f"unexpected '{parser._curr.text}'" if parser._curr else "the statement ends too early"
    elif said.startswith("Expected table name"):
        said = "the name of a stream, view or query is needed here"
    else:
        said = said[0].lower() + said[1:]
    return SqlError.one(Code.SYNTAX, said, _current_span(parser, statement), "check the text just before this")


def _current_span(parser: WeftParser, statement: str) -> Span:
    token = parser._curr or parser._prev
    return Span(token.start, token.end + 1) if token else Span(0, len(statement))
