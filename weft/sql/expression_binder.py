"""Syntax trees to typed expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from sqlglot import exp

from weft.algebra import types
from weft.algebra.expressions import Call, Expression, Literal
from weft.algebra.types import BOOLEAN, DOUBLE, INT, INTERVAL, NULL, STRING, TIMESTAMP, DataType, Kind, decimal
from weft.sql import coercion, durations, functions, limits, unsupported
from weft.sql.problems import Code, did_you_mean
from weft.sql.scope import Scope, refuse, refuse_unread

#: Other names of functions, and the function they mean.
_SYNONYMS = {
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "substr": "substring",
    "pow": "power",
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "ucase": "upper",
    "lcase": "lower",
    "signum": "sign",
    "dayofmonth": "day",
    "starts_with": "startswith",
    "ends_with": "endswith",
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "percentile_cont": "percentile",
}

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "<=>",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}


def bind_condition(node: exp.Expr, scope: Scope, operator: str = "") -> Expression:
    """An expression that must be a BOOLEAN, as an operand of an operator or as what a clause says."""
    bound = bind(node, scope)
    if bound.type not in (BOOLEAN, NULL):
        needed = f"{operator} needs conditions" if operator else f"{scope.clause} needs a condition"
        raise refuse(Code.NOT_BOOLEAN, f"{needed}, but this is {bound.type}", node, "compare it with something")
    return coercion.cast(bound, BOOLEAN)


def bind(node: exp.Expr, scope: Scope) -> Expression:
    """The typed expression of a syntax tree. Raises SqlError."""
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return scope.resolve(node)
    for kind in type(node).__mro__:
        rule = _RULES.get(kind)
        if rule is not None:
            refuse_unread(node, _READ.get(kind, _OPERANDS))
            return rule(node, scope)
    title, hint = unsupported.EXPRESSIONS.get(node.key, ("this expression", "write it with operators and functions"))
    raise refuse(Code.UNSUPPORTED, f"{title} is not supported here", node, hint)


def _as_time(expression: Expression, to: DataType, node: exp.Expr) -> Expression:
    """A text constant that is compared with a time, or cast to one, is read as one; otherwise what it is."""
    if isinstance(expression, Literal) and isinstance(expression.value, str) and to.kind in (Kind.TIMESTAMP, Kind.DATE):
        return coercion.time_of_text(expression.value, to, node)
    return expression


def _compare(node: exp.Binary, scope: Scope) -> Expression:
    left, right = bind(node.this, scope), bind(node.expression, scope)
    compared = _comparison(_COMPARISONS[type(node)], left, right, node)
    return Call("not", (compared,), BOOLEAN) if isinstance(node, exp.NullSafeNEQ) else compared


def _comparison(op: str, left: Expression, right: Expression, node: exp.Expr) -> Call:
    left, right = _as_time(left, right.type, node), _as_time(right, left.type, node)
    left, right = _with_fewest_digits(left, right.type), _with_fewest_digits(right, left.type)
    common = coercion.comparison_type(left.type, right.type)
    if common is None:
        hint = "CAST one of the two to the other's type"
        raise refuse(Code.TYPE_MISMATCH, f"{left.type} and {right.type} cannot be compared", node, hint)
    return Call(op, (coercion.cast(left, common), coercion.cast(right, common)), BOOLEAN)


def _arithmetic(node: exp.Binary, scope: Scope) -> Expression:
    op = _ARITHMETIC[type(node)]
    left, right = bind(node.this, scope), bind(node.expression, scope)
    if left.type == NULL and right.type == NULL:
        return Literal(None, DOUBLE if op == "/" else INT)
    if left.type == NULL:
        left = coercion.cast(left, INTERVAL if right.type == TIMESTAMP and op != "-" else right.type)
    if right.type == NULL:
        right = coercion.cast(right, INTERVAL if left.type == TIMESTAMP else left.type)
    temporal = _temporal(op, left, right)
    if temporal is not None:
        return temporal
    if not left.type.is_numeric or not right.type.is_numeric:
        times = {left.type.kind, right.type.kind} & {Kind.TIMESTAMP, Kind.DATE}
        hint = "add or subtract an INTERVAL" if times else "CAST the operands to numbers"
        raise refuse(Code.TYPE_MISMATCH, f"{left.type} {op} {right.type} is not possible", node, hint)
    if op == "div" and (left.type.is_floating or right.type.is_floating):
        message = f"DIV needs integers or DECIMALs, but this is {left.type} DIV {right.type}"
        raise refuse(Code.TYPE_MISMATCH, message, node, "use / or CAST the operands")
    if op != "div":
        left, right = _with_fewest_digits(left, right.type), _with_fewest_digits(right, left.type)
    result = coercion.arithmetic_type(op, left.type, right.type)
    is_exact = result.kind is Kind.DECIMAL
    # Integers take the DECIMAL type that holds them.
    args = [coercion.cast(each, coercion.as_decimal(each.type) if is_exact else result) for each in (left, right)]
    if op == "div" and result != types.HUGEINT:
        result = types.BIGINT
    return Call(op, tuple(args), result)


def _with_fewest_digits(expression: Expression, other: DataType) -> Expression:
    """An integer constant beside a DECIMAL is a DECIMAL of just its digits, as in Spark; otherwise what it is."""
    if other.kind is Kind.DECIMAL and isinstance(expression, Literal) and expression.type.is_integer:
        digits = str(expression.value).lstrip("-")
        return coercion.cast(expression, decimal(len(digits), 0)) if expression.value is not None else expression
    return expression


def _temporal(op: str, left: Expression, right: Expression) -> Expression | None:
    """Arithmetic on times, or None if this is none."""
    kinds, times = (left.type.kind, right.type.kind), (Kind.TIMESTAMP, Kind.DATE)
    if op in ("+", "*") and kinds[0] is Kind.INTERVAL and kinds[1] is not Kind.INTERVAL:
        return _temporal(op, right, left)
    if op == "-" and kinds[0] in times and kinds[1] in times:
        return Call(op, (coercion.cast(left, TIMESTAMP), coercion.cast(right, TIMESTAMP)), INTERVAL)
    if kinds[1] is not Kind.INTERVAL:
        return None
    if op in ("+", "-") and kinds[0] in times:
        return Call(op, (coercion.cast(left, TIMESTAMP), right), TIMESTAMP)
    if op in ("+", "-") and kinds[0] is Kind.INTERVAL:
        return _folded_interval(op, left, right)
    return _folded_interval(op, right, left) if op == "*" and left.type.is_integer else None


def _folded_interval(op: str, left: Expression, right: Expression) -> Expression:
    """Arithmetic on intervals; on constants it is done here, so that bounds on clocks stay recognisable."""
    if isinstance(left, Literal) and isinstance(right, Literal) and left.value is not None and right.value is not None:
        a, b = int(str(left.value)), int(str(right.value))
        folded = {"+": a + b, "-": a - b, "*": a * b}[op]
        if abs(folded) <= durations.LONGEST:
            return Literal(folded, INTERVAL)
    return Call(op, (left, right), INTERVAL)


def _negative(node: exp.Neg, scope: Scope) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return coercion.number(f"-{node.this.name}", node)
    bound = bind(node.this, scope)
    if not bound.type.is_numeric and bound.type != INTERVAL:
        raise refuse(Code.TYPE_MISMATCH, f"a {bound.type} has no negative", node, "CAST it to a number")
    match bound:
        case Literal(Decimal() as value):
            return Literal(value.copy_negate(), bound.type)  # minus would round to 28 digits
        case Literal(int() | float() as value) if coercion.fits(-value, bound.type):
            return Literal(-value, bound.type)
    return Call("neg", (bound,), bound.type)


def _connective(node: exp.Connector, scope: Scope) -> Expression:
    op, args = node.key, list[Expression]()
    # Long chains lean to the left: taking them apart keeps the depth of recursion small.
    for each in node.flatten(unnest=False):
        bound = bind_condition(each, scope, op.upper())
        args.extend(bound.args if isinstance(bound, Call) and bound.op == op else (bound,))
    return Call(op, tuple(args), BOOLEAN)


def _between(node: exp.Between, scope: Scope) -> Expression:
    value = bind(node.this, scope)
    low = _comparison(">=", value, bind(node.args["low"], scope), node)
    high = _comparison("<=", value, bind(node.args["high"], scope), node)
    between = Call("and", (low, high), BOOLEAN)
    limits.check_expression(between, node)  # the value is there twice
    return between


def _in(node: exp.In, scope: Scope) -> Expression:
    if node.args.get("query") or node.args.get("unnest") or not node.expressions:
        hint = "join with the other input; a row that meets several comes several times"
        raise refuse(Code.UNSUPPORTED, "IN takes a list of values, not a subquery", node, hint)
    value = bind(node.this, scope)
    options = [_as_time(bind(each, scope), value.type, each) for each in node.expressions]
    common = coercion.comparison_type(value.type, *(option.type for option in options))
    if common is None:
        hint = "CAST them"
        raise refuse(Code.TYPE_MISMATCH, f"the values of IN cannot all be compared with {value.type}", node, hint)
    return Call("in", tuple(coercion.cast(each, common) for each in (value, *options)), BOOLEAN)


def _like(node: exp.Like, scope: Scope) -> Expression:
    value, pattern = bind(node.this, scope), bind(node.expression, scope)
    for each in (value, pattern):
        if each.type not in (STRING, NULL):
            raise refuse(Code.TYPE_MISMATCH, f"LIKE needs texts, but this is {each.type}", node, "CAST it to STRING")
    like = Call("like", (coercion.cast(value, STRING), coercion.cast(pattern, STRING)), BOOLEAN)
    return Call("not", (like,), BOOLEAN) if node.args.get("negate") else like


def _is(node: exp.Is, scope: Scope) -> Expression:
    bound = bind(node.this, scope)
    if isinstance(node.expression, exp.Null):
        return Call("is_null", (bound,), BOOLEAN)
    if isinstance(node.expression, exp.Boolean):
        return Call("<=>", (bind_condition(node.this, scope, "IS"), Literal(node.expression.this, BOOLEAN)), BOOLEAN)
    raise refuse(Code.UNSUPPORTED, "IS takes NULL, TRUE or FALSE", node, "use = or <=>")


def _cast(node: exp.Cast, scope: Scope) -> Expression:
    to = coercion.bind_type(node.to)
    bound = _as_time(bind(node.this, scope), to, node)
    if not coercion.can_cast(bound.type, to):
        hint = "numbers are UNIX_MICROS(timestamp) and TIMESTAMP_MICROS(number); other casts go through STRING"
        raise refuse(Code.TYPE_MISMATCH, f"a {bound.type} cannot become a {to}", node, hint)
    return coercion.cast(bound, to)


def _case(node: exp.Case | exp.If, scope: Scope) -> Expression:
    """CASE with or without a subject; IF(c, a, b) is CASE WHEN c THEN a ELSE b END."""
    is_if = isinstance(node, exp.If)
    branches, default = ([node], node.args.get("false")) if is_if else (node.args["ifs"], node.args.get("default"))
    subject = bind(node.this, scope) if node.this and not is_if else None
    conditions: list[Expression] = []
    values: list[Expression] = []
    for branch in branches:
        if subject is None:
            conditions.append(bind_condition(branch.this, scope, "IF" if is_if else "WHEN"))
        else:
            conditions.append(_comparison("=", subject, bind(branch.this, scope), branch))
        values.append(bind(branch.args["true"], scope))
    values.append(bind(default, scope) if default else Literal(None, NULL))
    result = coercion.common_type(*(value.type for value in values))
    if result is None:
        listed = ", ".join(str(each.type) for each in values)
        hint = "CAST them to one type"
        raise refuse(Code.TYPE_MISMATCH, f"the branches have no type in common: {listed}", node, hint)
    *cases, otherwise = (coercion.cast(value, result) for value in values)
    pairs = (part for pair in zip(conditions, cases, strict=True) for part in pair)
    case = Call("case", (*pairs, otherwise), result)
    if subject is not None:
        limits.check_expression(case, node)  # the subject is in every condition
    return case


def _extract(node: exp.Extract, scope: Scope) -> Expression:
    unit = node.this.name.lower()
    if unit not in ("year", "quarter", "month", "day", "hour", "minute", "second", "dayofweek"):
        raise refuse(Code.BAD_ARGUMENTS, f"EXTRACT has no '{unit}'", node, "it takes YEAR … SECOND and DAYOFWEEK")
    return functions.call(unit, [bind(node.expression, scope)], node)


def _call(node: exp.Anonymous, scope: Scope) -> Expression:
    written = node.this if isinstance(node.this, str) else node.this.name
    name = _SYNONYMS.get(written.lower(), written.lower())
    if name in functions.AGGREGATES:
        return _aggregate(name, node.expressions, node, scope)
    if name == "mod" and len(node.expressions) == 2:
        return _arithmetic(exp.Mod(this=node.expressions[0], expression=node.expressions[1]), scope)
    if name == "window":
        raise refuse(Code.BAD_WINDOW, "window(…) belongs in GROUP BY", node, "select window.start and window.end")
    if name not in functions.FUNCTIONS:
        advice = unsupported.FUNCTIONS.get(name)
        if advice is not None:
            raise refuse(Code.UNSUPPORTED, f"function {written.upper()} is not supported", node, advice)
        known = [*functions.FUNCTIONS, *functions.AGGREGATES, *_SYNONYMS]
        hint = did_you_mean(name, known, "weft has no functions of one's own; compute it where the rows come from")
        raise refuse(Code.UNKNOWN_FUNCTION, f"function {written.upper()} is unknown", node, hint)
    return functions.call(name, [bind(each, scope) for each in node.expressions], node)


def _aggregate(name: str, nodes: Sequence[exp.Expr], node: exp.Expr, scope: Scope) -> Expression:
    distinct = len(nodes) == 1 and isinstance(nodes[0], exp.Distinct)
    if distinct:
        nodes = nodes[0].expressions
    if name == "count" and len(nodes) == 1 and isinstance(nodes[0], exp.Star) and not distinct:
        nodes = []
    elif name == "count" and not nodes:
        raise refuse(Code.BAD_ARGUMENTS, "COUNT takes an argument", node, "write COUNT(*)")
    inner = scope.inside_aggregate()
    args = [bind(each, inner) for each in nodes]
    return scope.aggregate(functions.aggregate(name, args, distinct, node), node)


def _within_group(node: exp.WithinGroup, scope: Scope) -> Expression:
    """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x) is PERCENTILE(x, p)."""
    call, order = node.this, node.expression
    ordered = order.expressions[0] if isinstance(order, exp.Order) and len(order.expressions) == 1 else None
    name = str(getattr(call, "this", "")).lower()
    if not isinstance(call, exp.Anonymous) or name != "percentile_cont" or ordered is None or ordered.args.get("desc"):
        hint = "use PERCENTILE(x, p)"
        raise refuse(Code.UNSUPPORTED, "WITHIN GROUP is supported for PERCENTILE_CONT, ascending", node, hint)
    return _aggregate("percentile", [ordered.this, *call.expressions], node, scope)


Rule: TypeAlias = Callable[[Any, Scope], Expression]

#: The parts of a syntax tree that its rule reads, where they are not just the operands.
_OPERANDS = frozenset({"this", "expression"})
_READ: dict[type, frozenset[str]] = {
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions", "query", "unnest", "field"}),
    exp.Like: _OPERANDS | {"negate"},
    exp.Cast: frozenset({"this", "to", "safe"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.DPipe: _OPERANDS | {"safe"},
    exp.Div: _OPERANDS | {"safe", "typed"},
    exp.Anonymous: frozenset({"this", "expressions"}),
}

_RULES: dict[type, Rule] = {
    exp.Literal: lambda node, scope: Literal(node.name, STRING) if node.is_string else coercion.number(node.name, node),
    exp.Boolean: lambda node, scope: Literal(bool(node.this), BOOLEAN),
    exp.Null: lambda node, scope: Literal(None, NULL),
    exp.Paren: lambda node, scope: bind(node.this, scope),
    exp.Neg: _negative,
    exp.And: _connective,
    exp.Or: _connective,
    exp.Not: lambda node, scope: Call("not", (bind_condition(node.this, scope, "NOT"),), BOOLEAN),
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Is: _is,
    exp.Cast: _cast,
    exp.Interval: lambda node, scope: Literal(coercion.interval(node), INTERVAL),
    exp.Case: _case,
    exp.If: _case,
    exp.DPipe: lambda node, scope: functions.call(
        "concat", [bind(node.this, scope), bind(node.expression, scope)], node
    ),
    exp.Extract: _extract,
    exp.Anonymous: _call,
    exp.WithinGroup: _within_group,
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
}
