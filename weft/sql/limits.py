"""How large a statement may be.

Trees of statements and queries are walked by recursion in many places, here, in Spark and in between; Python's stack is
a thousand calls deep. So what is too deep is refused first, always at the same depth, whatever called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from weft.algebra import Answers, Relation, SetOperation, Source, Stream, Table
from weft.algebra.expressions import Call, Column, Expression
from weft.algebra.properties import folded
from weft.sql.problems import Code, Span, SqlError
from weft.sql.scope import refuse, span_of

#: Parentheses, brackets and CASEs inside each other: the parser needs about twenty calls for each.
DEEPEST_NESTING = 40
#: Operators inside each other; the operands of one chain of ANDs or ORs count as one level.
DEEPEST_TREE = 100
#: Subqueries, views and set operators inside each other.
DEEPEST_RELATION = 100
#: Words, numbers and signs in one statement, also when its views, subqueries and aliases are written out.
LONGEST_STATEMENT = 20_000
#: Streams, tables and queries that one query reads, each as often as it reads it.
MOST_INPUTS = 1_000

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})

_HINT = "split it with views"
_HINT_WRITTEN_OUT = "make a part of it a query of its own, and read its answers"


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
            raise too_deep(span_of(node))
        for child in node.iter_expressions():
            same_chain = type(child) is type(node) and isinstance(node, (exp.And, exp.Or))
            waiting.append((child, depth if same_chain else depth + 1))


def check_expression(expression: Expression, node: exp.Expr) -> None:
    """Refuses expressions that repeat a part so often that they could not be compared or written out."""
    if _words(expression, {}, {}) > LONGEST_STATEMENT:
        message = f"written out, this has more than {LONGEST_STATEMENT} words"
        raise refuse(Code.TOO_DEEP, message, node, _HINT_WRITTEN_OUT)


def check_relation(relation: Relation, tree: exp.Expr) -> None:
    """Refuses relations that views have made too deep or too large."""
    measure = folded(relation, _measured)
    if measure.depth > DEEPEST_RELATION:
        raise refuse(Code.TOO_DEEP, "views and subqueries are nested too deeply", tree, "read fewer views of views")
    if measure.inputs > MOST_INPUTS:
        message = f"the query reads {measure.inputs} inputs; at most {MOST_INPUTS} are possible"
        raise refuse(Code.TOO_DEEP, message, tree, _HINT)
    if measure.words + sum(measure.columns.values()) > LONGEST_STATEMENT:
        message = f"with its views, subqueries and aliases written out, this has more than {LONGEST_STATEMENT} words"
        raise refuse(Code.TOO_DEEP, message, tree, _HINT_WRITTEN_OUT)


@dataclass(frozen=True)
class _Measure:
    """How large a relation is when every view and subquery in it is written out.

    `words` are those of its conditions, keys and aggregates, and of all that it reads; `columns` has the words of each
    of its columns.
    """

    depth: int
    inputs: int
    words: int
    columns: Mapping[str, int]


def _measured(source: Source, below: Sequence[_Measure]) -> _Measure:
    """The size of a source by the sizes of what it reads. It is counted, not written out."""
    if isinstance(source, (Stream, Table, Answers)):
        return _Measure(0, 1, 0, {})
    depth, inputs = 1 + max(each.depth for each in below), sum(each.inputs for each in below)
    total = sum(each.words for each in below)
    if isinstance(source, SetOperation):
        total += sum(sum(each.columns.values()) for each in below)
        return _Measure(depth, inputs, total, {field.name: 1 for field in source.fields})
    read = zip(source.inputs, below, strict=True)
    sizes = {(each.alias, name): size for each, size_of in read for name, size in size_of.columns.items()}
    known: dict[int, int] = {}
    inside = [source.where, *source.keys, *(arg for each in source.aggregates for arg in each.args), source.having]
    columns = {each.name: _words(each.expression, sizes, known) for each in source.outputs}
    total += sum(_words(each, sizes, known) for each in inside if each is not None)
    if source.is_grouped:
        # What reads groups reads their columns as they are.
        total, columns = total + sum(columns.values()), dict.fromkeys(columns, 1)
    return _Measure(depth, inputs, total, columns)


def _words(expression: Expression, columns: Mapping[tuple[str, str], int], known: dict[int, int]) -> int:
    """The words of an expression; parts that it shares are counted once and added as often as they occur."""
    if isinstance(expression, Column):
        return columns.get((expression.source, expression.name), 1)
    if not isinstance(expression, Call):
        return 1
    if id(expression) not in known:
        known[id(expression)] = 1 + sum(_words(arg, columns, known) for arg in expression.args)
    return known[id(expression)]
