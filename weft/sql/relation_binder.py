"""Queries: WITH, parentheses, UNION, INTERSECT and EXCEPT around SELECTs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from weft.algebra import Field, Output, Relation, Select, SetOperation, SetOperator
from weft.algebra.properties import answer_window, clock_type, emission
from weft.algebra.types import DataType
from weft.sql import limits, unsupported
from weft.sql.coercion import cast, common_type
from weft.sql.from_clause import SUBQUERY_CLAUSES, QueryContext, refuse_column_names
from weft.sql.names import Names
from weft.sql.problems import Code, Problem, ProblemList
from weft.sql.query_syntax import EMIT_EMPTY, RETAIN, WINDOW
from weft.sql.scope import refuse, refuse_unread
from weft.sql.select import SelectBinder, clauses_without_effect, most_repeated, note_order, versions_as_rows
from weft.sql.window_clause import retain_of

_SET_CLAUSES = frozenset({"with_", "this", "expression", "distinct", "by_name"})


def bind_relation(tree: exp.Expr, names: Names, notes: list[Problem] | None = None) -> Relation:
    """The relation of a SELECT or a set operator. Raises SqlError with every problem found.

    What is no error and still worth knowing is added to `notes`.
    """
    relation = _bind(tree, QueryContext(names, _bind, notes=[] if notes is None else notes))
    limits.check_relation(relation, tree)
    return relation


def _bind(tree: exp.Expr, context: QueryContext) -> Relation:
    with_ = tree.args.get("with_")
    if with_ is not None:
        if with_.args.get("recursive"):
            hint = "recursion over a stream has no end"
            raise refuse(Code.UNSUPPORTED, "WITH RECURSIVE is not supported", with_, hint)
        ctes = dict(context.ctes)
        for cte in with_.expressions:
            refuse_unread(cte, frozenset({"this", "alias"}), unsupported.CLAUSES)
            refuse_column_names(cte)
            ctes[cte.alias.lower()] = _bind(cte.this, replace(context, ctes=ctes, is_inside=True))
        context = replace(context, ctes=ctes)
    if isinstance(tree, exp.Subquery):
        if tree.args.get("alias") or WINDOW in tree.meta:
            raise refuse(Code.UNSUPPORTED, "an operand has neither alias nor window", tree, "put the window inside")
        refuse_unread(tree, SUBQUERY_CLAUSES | clauses_without_effect(tree), unsupported.CLAUSES)
        note_order(tree, context)
        _refuse_emit_empty(tree)
        if RETAIN in tree.meta:
            # `(SELECT …) RETAIN r` is `SELECT … RETAIN r`.
            tree.this.meta.setdefault(RETAIN, tree.meta.pop(RETAIN))
        return _bind(tree.this, context)
    if isinstance(tree, exp.SetOperation):
        return _bind_set_operation(tree, context)
    if isinstance(tree, exp.Select):
        return SelectBinder(tree, context).bind()
    raise refuse(Code.UNSUPPORTED, f"{tree.key.upper()} is not supported here", tree, "write SELECT … FROM …")


def _bind_set_operation(tree: exp.SetOperation, context: QueryContext) -> Relation:
    refuse_unread(tree, _SET_CLAUSES | clauses_without_effect(tree), unsupported.CLAUSES)
    note_order(tree, context)
    _refuse_emit_empty(tree)
    node = _trailing_retain(tree)
    operator = SetOperator[type(tree).__name__.upper()]
    if tree.args.get("by_name"):
        raise refuse(Code.UNSUPPORTED, f"{operator.value} BY NAME is not supported", tree, "list the columns in order")
    inner = context if node is None else replace(context, retain_node=node)
    problems, operands = ProblemList(), list[Relation]()
    for operand in (tree.this, tree.expression):
        with problems.collecting():
            operands.append(_bind(operand, inner))
    problems.raise_any()
    left, right = operands
    clock = clock_type(left)
    if clock != clock_type(right):
        message = "one operand's clock is a TIMESTAMP, the other's an ordinal"
        raise refuse(Code.WINDOWS_DIFFER, message, tree, "combine streams whose clocks are of one type")
    all_ = not tree.args.get("distinct")
    if not (operator is SetOperator.UNION and all_):
        kept = most_repeated(inner.retain_node)
        for side, operand, relation in (("left", tree.this, left), ("right", tree.expression, right)):
            if emission(relation).value > kept.value:
                raise versions_as_rows(f"the {side} operand", operator.value + " ALL" * all_, operand)
    window = answer_window(left)
    if window != answer_window(right):
        hint = "give both the same RANGE, SLIDE and ORIGIN, or neither of them one"
        raise refuse(Code.WINDOWS_DIFFER, "the operands have different windows", tree, hint)
    left, right = _aligned(left, right, tree, operator)
    needs_history = window is None and not (operator is SetOperator.UNION and all_)
    if needs_history and all_:
        hint = f"give both operands the same window, or write {operator.value} without ALL"
        raise refuse(Code.NEEDS_WINDOW, f"{operator.value} ALL needs windows", tree, hint)
    retain = retain_of(inner.retain_node, clock) if needs_history else None
    if needs_history and retain is None:
        message = f"{operator.value} without windows remembers rows, but for how long?"
        raise refuse(Code.NEEDS_RETAIN, message, tree, context.retain_advice)
    if node is not None and not needs_history and not _uses_retain(left, right):
        hint = "drop RETAIN: the operands have windows"
        raise refuse(Code.MISPLACED_OPTION, "nothing here remembers rows", node, hint)
    return SetOperation(operator, all_, left, right, left.fields, clock, window, retain)


def _uses_retain(*relations: Relation) -> bool:
    return any(
        relation.retain is not None
        or (isinstance(relation, SetOperation) and _uses_retain(relation.left, relation.right))
        for relation in relations
    )


def _trailing_retain(tree: exp.Expr) -> exp.Expr | None:
    """The RETAIN at the end of a set operator; it was read as part of the last SELECT."""
    own: exp.Expr | None = tree.meta.pop(RETAIN, None)
    if own is None and isinstance(tree, exp.SetOperation):
        own = _trailing_retain(tree.expression)
    if own is None and isinstance(tree, exp.Subquery) and tree.is_wrapper:
        own = _trailing_retain(tree.this)
    return own


def _aligned(left: Relation, right: Relation, tree: exp.Expr, operator: SetOperator) -> tuple[Relation, Relation]:
    """Both operands with their columns cast to common types."""
    if len(left.fields) != len(right.fields):
        message = f"{operator.value} needs equally many columns on both sides: {len(left.fields)}, {len(right.fields)}"
        hint = f"the left one has {_listed(left.fields)}; the right one {_listed(right.fields)}"
        raise refuse(Code.TYPE_MISMATCH, message, tree, hint)
    types = []
    for mine, theirs in zip(left.fields, right.fields, strict=True):
        common = common_type(mine.type, theirs.type)
        if common is None:
            message = (
                f"{operator.value}: column '{mine.name}' is {mine.type} on the left and {theirs.type} on the right"
            )
            raise refuse(Code.TYPE_MISMATCH, message, tree, "CAST one of the two")
        types.append(common)
    return _cast_relation(left, types), _cast_relation(right, types)


def _listed(fields: Sequence[Field]) -> str:
    return ", ".join(field.name for field in fields)


def _cast_relation(relation: Relation, types: Sequence[DataType]) -> Relation:
    if [field.type for field in relation.fields] == list(types):
        return relation
    if isinstance(relation, Select):
        pairs = zip(relation.outputs, types, strict=True)
        return replace(relation, outputs=tuple(Output(o.name, cast(o.expression, type_)) for o, type_ in pairs))
    left, right = _cast_relation(relation.left, types), _cast_relation(relation.right, types)
    return replace(relation, left=left, right=right, fields=left.fields)


def _refuse_emit_empty(tree: exp.Expr) -> None:
    if EMIT_EMPTY in tree.meta:
        hint = "write it inside the parentheses, after the SELECT that it is for"
        raise refuse(Code.MISPLACED_OPTION, "EMIT EMPTY has no meaning here", tree.meta[EMIT_EMPTY], hint)
