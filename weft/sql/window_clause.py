"""Windows as they are written: [RANGE …], HOP and TUMBLE in FROM, window(…) in GROUP BY; and RETAIN."""

from __future__ import annotations

from sqlglot import exp

from weft.algebra import UNBOUNDED, Retain, Window
from weft.algebra.expressions import Literal
from weft.algebra.types import TIMESTAMP, DataType
from weft.sql import durations, expression_binder
from weft.sql.coercion import parse_timestamp
from weft.sql.problems import Code
from weft.sql.query_syntax import WindowClause, WindowTable
from weft.sql.scope import Scope, refuse


def ticks(duration: exp.Expr, clock: DataType) -> int:
    """A duration in ticks of a clock: with a unit for TIMESTAMPs, without one for ordinals."""
    with_unit = duration.args.get("unit") != ""
    if with_unit != (clock == TIMESTAMP):
        hint = (
            "give it a unit, such as 5 MINUTES"
            if clock == TIMESTAMP
            else "an ordinal clock has no units: write a number"
        )
        raise refuse(Code.BAD_DURATION, f"this length does not fit a {clock} clock", duration, hint)
    return int(duration.this.name)


def _positive(duration: exp.Expr, clock: DataType, what: str) -> int:
    length = ticks(duration, clock)
    if length <= 0:
        raise refuse(Code.BAD_WINDOW, f"{what} must be positive", duration, "write at least one tick of the clock")
    return length


def window_of_clause(clause: WindowClause, clock: DataType) -> Window:
    kind = clause.args["kind"]
    if kind == "UNBOUNDED":
        return UNBOUNDED
    if kind == "NOW":
        return Window(1)
    if kind == "ROWS" and clock == TIMESTAMP:
        hint = "declare a BIGINT clock that counts the rows, or use RANGE"
        raise refuse(Code.BAD_WINDOW, "ROWS needs a stream whose clock is an ordinal", clause, hint)
    slide, origin = clause.args.get("slide"), clause.args.get("origin")
    return _window(
        _positive(clause.args["range"], clock, "the range"),
        _positive(slide, clock, "the slide") if slide is not None else 1,
        _origin(origin, clock) if origin is not None else 0,
    )


def _window(range_: int, slide: int, origin: int) -> Window:
    """A window whose origin lies in [0, slide): two windows with the same instances are equal."""
    return Window(range_, slide, origin % slide)


def _origin(node: exp.Expr, clock: DataType) -> int:
    if isinstance(node, exp.Literal):
        moment = parse_timestamp(node.name)
        if moment is None or clock != TIMESTAMP:
            hint = "write ORIGIN TIMESTAMP '2024-01-01 00:00:00'"
            raise refuse(Code.BAD_LITERAL, f"'{node.name}' is no origin for a {clock} clock", node, hint)
        return moment
    return ticks(node, clock)


def window_of_table(table: WindowTable, clock: DataType) -> Window:
    kind, lengths = table.args["kind"], table.expressions
    wanted = (2, 3) if kind == "HOP" else (1, 2)
    if len(lengths) not in wanted:
        form = (
            "HOP(stream, clock, slide, range[, origin])" if kind == "HOP" else "TUMBLE(stream, clock, range[, origin])"
        )
        raise refuse(Code.BAD_WINDOW, f"{kind} has {len(lengths)} lengths", table, f"write {form}")
    slide = _positive(lengths[0], clock, "the slide")
    range_ = _positive(lengths[1], clock, "the range") if kind == "HOP" else slide
    origin = ticks(lengths[-1], clock) if len(lengths) == wanted[1] else 0
    return _window(range_, slide, origin)


def window_of_call(call: exp.Expr, clock: DataType) -> Window:
    """Spark's window(clock, range[, slide[, start]]) with texts for lengths; numbers for an ordinal clock."""
    lengths = [_length(arg, clock) for arg in call.expressions[1:]]
    if not 1 <= len(lengths) <= 3:
        hint = "write window(ts, '1 hour', '5 minutes')"
        raise refuse(Code.BAD_WINDOW, "window takes a clock and one to three lengths", call, hint)
    for what, length, arg in zip(("range", "slide"), lengths, call.expressions[1:], strict=False):
        if length <= 0:
            raise refuse(Code.BAD_WINDOW, f"the {what} must be positive", arg, "")
    return _window(lengths[0], lengths[1] if len(lengths) > 1 else lengths[0], lengths[2] if len(lengths) > 2 else 0)


def _length(node: exp.Expr, clock: DataType) -> int:
    if isinstance(node, exp.Literal) and node.is_string == (clock == TIMESTAMP):
        try:
            return durations.parse(node.name) if node.is_string else durations.ordinals(node.name)
        except durations.BadDuration as bad:
            raise refuse(Code.BAD_DURATION, str(bad), node, durations.ADVICE) from None
    if isinstance(node, exp.Interval) and clock == TIMESTAMP:
        bound = expression_binder.bind(node, Scope([], "window"))
        return int(str(bound.value)) if isinstance(bound, Literal) else 0
    hint = "write '5 minutes', or a number for an ordinal clock"
    raise refuse(Code.BAD_DURATION, f"this length does not fit a {clock} clock", node, hint)


def retain_of(node: exp.Expr | None, clock: DataType) -> Retain | None:
    if node is None:
        return None
    return Retain(None if isinstance(node, exp.Null) else ticks(node, clock))


def is_window_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.name).lower() == "window"
