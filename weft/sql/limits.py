"""How large a statement may be.

Trees of statements and queries are walked by recursion in many places, here, in Spark and in between; Python's stack is
a thousand calls deep. So what is too deep is refused at the door, always at the same depth, whoever calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from weft.algebra import Answers, Relation, Select, Source, Stream, Table
from weft.sql.errors import Code, Span, SqlError
from weft.sql.scope import refuse

#: Parentheses, brackets and CASEs inside each other: the parser needs about twenty calls for each.
DEEPEST_NESTING = 40
#: Operators inside each other; the operands of one chain of ANDs or ORs count as one level.
DEEPEST_TREE = 100
#: Subqueries, views and set operators inside each other.
DEEPEST_RELATION = 100
#: Words, numbers and signs in one statement.
LONGEST_STATEMENT = 20_000
#: Streams, tables and queries that one query reads, each as often as it reads it.
MOST_INPUTS = 1_000

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})

_HINT = "split it with views"


def too_deep(span: Span) -> SqlError:
    """The error for a statement whose parts are too deep inside each other."""
    return SqlError.one(Code.TOO_DEEP, "the statement is nested too deeply", span, _HINT)


def check_tokens(tokens: Sequence[Token]) -> None:
    """Refuses statements that the parser could not get through."""
    depth = 0
    for count, token in enumerate(tokens):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > DEEPEST_NESTING:
            raise too_deep(Span(token.start, token.end + 1))
        if count == LONGEST_STATEMENT:
            span = Span(token.start, token.end + 1)
            raise SqlError.one(Code.TOO_DEEP, f"a statement has at most {LONGEST_STATEMENT} words", span, _HINT)


def check_tree(tree: exp.Expr) -> None:
    """Refuses syntax trees that are too deep to be walked."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEEPEST_TREE:
            raise refuse(Code.TOO_DEEP, "the statement is nested too deeply", node, _HINT)
        for child in node.iter_expressions():
            same_chain = type(child) is type(node) and isinstance(node, (exp.And, exp.Or))
            waiting.append((child, depth if same_chain else depth + 1))


def check_relation(relation: Relation, tree: exp.Expr) -> None:
    """Refuses relations that views have made too deep or too large."""
    depth, inputs = _size(relation, {})
    if depth > DEEPEST_RELATION:
        raise refuse(Code.TOO_DEEP, "views and subqueries are nested too deeply", tree, "read fewer views of views")
    if inputs > MOST_INPUTS:
        raise refuse(Code.TOO_DEEP, f"the query reads {inputs} inputs; at most {MOST_INPUTS} are possible", tree, _HINT)


def _size(source: Source, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How deep a source is, and how many inputs it reads. A view that is read twice is measured once."""
    if isinstance(source, (Stream, Table, Answers)):
        return 0, 1
    if id(source) not in known:
        parts = [each.source for each in source.inputs] if isinstance(source, Select) else [source.left, source.right]
        sizes = [_size(part, known) for part in parts]
        known[id(source)] = 1 + max(depth for depth, _ in sizes), sum(inputs for _, inputs in sizes)
    return known[id(source)]
