"""The operators and functions of the language: their arguments and the types of their results.

What each of them computes is SQL's business and Spark's; where the two leave a choice, `docs/semantics.md` makes it.
A parameter list is written with one letter per argument, `?` before the optional ones, `*` after a repeatable one:

    s  STRING      d  any number, taken as DOUBLE      n  any number      i  an integer, taken as INT
    t  TIMESTAMP   u  a literal unit of time           k  a literal INT   a  anything (all `a`s get one common type)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from weft.algebra import types
from weft.algebra.expressions import Aggregate, Call, Expression, Literal
from weft.sql.coercion import bounded_decimal, can_cast, cast, common_type, comparison_type
from weft.sql.problems import Code
from weft.sql.scope import refuse

#: Units that DATE_TRUNC takes.
TRUNCATION_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")


def _first(args: Sequence[Expression]) -> types.DataType:
    return args[0].type


def _rounded(args: Sequence[Expression]) -> types.DataType:
    type_ = args[0].type
    if type_.kind is not types.Kind.DECIMAL:
        return type_
    places = int(str(args[1].value)) if len(args) > 1 and isinstance(args[1], Literal) else 0
    whole = type_.precision - type_.scale + 1  # 9.9 becomes 10
    if places < 0:
        return types.decimal(min(max(whole, 1 - places), 38), 0)
    scale = min(type_.scale, places)
    return types.decimal(min(whole + scale, 38), scale)


def _whole(args: Sequence[Expression]) -> types.DataType:
    type_ = args[0].type
    if type_.kind is types.Kind.DECIMAL:
        return types.decimal(type_.precision - type_.scale + 1, 0) if type_.scale else type_
    return types.HUGEINT if type_ == types.HUGEINT else types.BIGINT


#: Names of functions, their parameters and what they return.
_SIGNATURES: tuple[tuple[str, str, types.DataType | Callable[[Sequence[Expression]], types.DataType]], ...] = (
    ("upper lower trim ltrim rtrim reverse", "s", types.STRING),
    ("length", "s", types.INT),
    ("substring", "si?i", types.STRING),
    ("replace", "ss?s", types.STRING),
    ("concat", "s*", types.STRING),
    ("startswith endswith contains", "ss", types.BOOLEAN),
    ("abs", "n", _first),
    ("round", "n?k", _rounded),
    ("floor ceil", "n", _whole),
    ("sign sqrt exp ln log10", "d", types.DOUBLE),
    ("power", "dd", types.DOUBLE),
    ("year quarter month day dayofweek hour minute second", "t", types.INT),
    ("date_trunc", "ut", types.TIMESTAMP),
    ("unix_micros", "t", types.BIGINT),
    ("timestamp_micros", "n", types.TIMESTAMP),
    ("coalesce", "a*", _first),
    ("greatest least", "aa*", _first),
    ("nullif", "aa", _first),
)

#: The parameters and the result of a scalar function.
FUNCTIONS = {name: (parameters, result) for names, parameters, result in _SIGNATURES for name in names.split()}


def call(name: str, args: Sequence[Expression], node: exp.Expr) -> Expression:
    """The call `name(args)` that `node` writes, its arguments cast to what the function takes. Raises SqlError.

    What chooses one of its arguments compares them in one type and has the result in another: see `comparison_type`.
    """
    parameters, result = FUNCTIONS[name]
    required, _, optional = parameters.partition("?")
    least = len(required.rstrip("*"))
    greatest = None if parameters.endswith("*") else least + len(optional)
    if len(args) < least or (greatest is not None and len(args) > greatest):
        message = f"{name.upper()} takes {_count(least, greatest)}, not {len(args)}"
        raise refuse(Code.BAD_ARGUMENTS, message, node, _form(name))
    codes = parameters.replace("?", "").rstrip("*")
    compared = None
    if "a" in codes:
        compared = comparison_type(*(arg.type for arg in args))
        if compared is None:
            listed = ", ".join(str(arg.type) for arg in args)
            message = f"the arguments of {name.upper()} have no type in common: {listed}"
            raise refuse(Code.BAD_ARGUMENTS, message, node, "CAST them to one type")
    taken = []
    for position, arg in enumerate(args):
        code = codes[min(position, len(codes) - 1)]
        if code == "a" and compared is not None:
            taken.append(cast(arg, compared))
        else:
            taken.append(_argument(arg, code, f"argument {position + 1} of {name.upper()}", node))
    found = Call(name, tuple(taken), result if isinstance(result, types.DataType) else result(taken))
    common = common_type(*(arg.type for arg in (args[:1] if name == "nullif" else args)))
    return found if compared is None or common is None or common == types.NULL else cast(found, common)


def _argument(arg: Expression, code: str, title: str, node: exp.Expr) -> Expression:
    wanted = _PARAMETERS[code]
    if code in "ku" and (not isinstance(arg, Literal) or arg.value is None):
        raise refuse(Code.BAD_ARGUMENTS, f"{title} must be a constant", node, "write its value")
    if code == "u" and isinstance(arg, Literal) and str(arg.value).lower() not in TRUNCATION_UNITS:
        message, hint = f"DATE_TRUNC has no unit {arg.value!r}", f"units are {', '.join(TRUNCATION_UNITS)}"
        raise refuse(Code.BAD_ARGUMENTS, message, node, hint)
    if arg.type == types.NULL and code != "n":
        return cast(arg, wanted.type)
    if not wanted.fits(arg.type):
        hint = f"CAST it to {wanted.type}" if can_cast(arg.type, wanted.type) else ""
        raise refuse(Code.BAD_ARGUMENTS, f"{title} must be {wanted.title}, but it is {arg.type}", node, hint)
    if code == "u" and isinstance(arg, Literal):
        return Literal(str(arg.value).lower(), types.STRING)
    taken = arg if code == "n" else cast(arg, wanted.type)
    if code == "k" and not isinstance(taken, Literal):
        raise refuse(Code.BAD_ARGUMENTS, f"{title} is too large", node, "it must be an INT")
    return taken


@dataclass(frozen=True, slots=True)
class _Parameter:
    """What a letter of a parameter list takes: how it is called, which types fit, and which they are cast to."""

    title: str
    fits: Callable[[types.DataType], bool]
    type: types.DataType
    example: str


_PARAMETERS = {
    "s": _Parameter("a STRING", lambda t: t == types.STRING, types.STRING, "text"),
    "d": _Parameter("a number", lambda t: t.is_numeric, types.DOUBLE, "number"),
    "n": _Parameter("a number", lambda t: t.is_numeric, types.DOUBLE, "number"),
    "i": _Parameter("an integer", lambda t: t.is_integer, types.INT, "integer"),
    "k": _Parameter("an integer", lambda t: t.is_integer, types.INT, "integer"),
    "t": _Parameter("a TIMESTAMP", lambda t: t in (types.TIMESTAMP, types.DATE), types.TIMESTAMP, "time"),
    "u": _Parameter("a unit of time", lambda t: t == types.STRING, types.STRING, "'unit'"),
    "a": _Parameter("anything", lambda t: True, types.NULL, "x"),
}


def _form(name: str) -> str:
    """How a function is written."""
    required, _, optional = FUNCTIONS[name][0].partition("?")
    listed = ", ".join(_PARAMETERS[code].example for code in required.rstrip("*")) + ", …" * required.endswith("*")
    rest = "".join(f"[, {_PARAMETERS[code].example}]" for code in optional)
    return f"write {name.upper()}({listed}{rest})"


def _count(least: int, greatest: int | None) -> str:
    if greatest is None:
        return f"at least {least} argument{'s' * (least != 1)}"
    if least == 0:
        return f"at most {greatest} argument{'s' * (greatest != 1)}"
    if least == greatest:
        return f"{least} argument{'s' * (least != 1)}"
    return f"{least} to {greatest} arguments"


#: Number of arguments of every aggregate function; COUNT(*) is COUNT without any.
AGGREGATES: dict[str, tuple[int, int]] = {
    "count": (0, 1),
    **dict.fromkeys(("sum", "avg", "min", "max", "median", "approx_count_distinct"), (1, 1)),
    **dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), (1, 1)),
    **dict.fromkeys(("min_by", "max_by", "percentile"), (2, 2)),
}


def is_holistic(aggregate: Aggregate) -> bool:
    """Whether the aggregate needs all values of a group, so that its state grows with the rows."""
    return aggregate.distinct or aggregate.function in ("median", "percentile")


def aggregate(name: str, args: Sequence[Expression], distinct: bool, node: exp.Expr) -> Aggregate:
    """The aggregate `name([DISTINCT] args)` that `node` writes. Raises SqlError."""
    least, greatest = AGGREGATES[name]
    title = name.upper()
    if not least <= len(args) <= greatest:
        written = {"min_by": "x, y", "max_by": "x, y", "percentile": "x, 0.9"}.get(name, "x")
        message = f"{title} takes {_count(least, greatest)}, not {len(args)}"
        raise refuse(Code.BAD_ARGUMENTS, message, node, f"write {title}({written})")
    distinct = distinct and name not in ("min", "max")
    if distinct and (name != "count" or not args):
        message = f"DISTINCT inside {title} is not supported"
        raise refuse(Code.BAD_ARGUMENTS, message, node, "COUNT(DISTINCT x) is")
    if name in ("count", "approx_count_distinct"):
        return Aggregate(name, tuple(args), types.BIGINT, distinct)
    if name in ("min", "max", "min_by", "max_by"):
        for arg in args:
            if arg.type.kind in (types.Kind.INTERVAL, types.Kind.BINARY):
                message = f"{title} of {arg.type} is not supported"
                raise refuse(Code.BAD_ARGUMENTS, message, node, "use a number, a text or a time")
        return Aggregate(name, tuple(args), args[0].type)
    value, *rest = args
    if not value.type.is_numeric and value.type != types.NULL:
        message = f"{title} needs a number, but its argument is {value.type}"
        raise refuse(Code.BAD_ARGUMENTS, message, node, "CAST it to a number")
    if name not in ("sum", "avg"):
        fractions = []
        for arg in rest:
            if not isinstance(arg, Literal) or not arg.type.is_numeric or not 0 <= float(str(arg.value)) <= 1:
                message = "PERCENTILE takes a constant between 0 and 1 as its second argument"
                raise refuse(Code.BAD_ARGUMENTS, message, node, "write PERCENTILE(x, 0.9)")
            fractions.append(Literal(float(str(arg.value)), types.DOUBLE))
        return Aggregate(name, (cast(value, types.DOUBLE), *fractions), types.DOUBLE)
    return Aggregate(name, (value,), _total_type(name, value.type))


def _total_type(name: str, of: types.DataType) -> types.DataType:
    """The type of a SUM or an AVG."""
    if name == "sum" and of.is_integer:
        return types.HUGEINT
    if of.kind is not types.Kind.DECIMAL:
        return types.DOUBLE
    digits, decimals = (10, 0) if name == "sum" else (4, 4)
    return bounded_decimal(min(38, of.precision + digits), min(38, of.scale + decimals))
