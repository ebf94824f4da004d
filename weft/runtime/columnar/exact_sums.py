"""Sums and means of numbers of more than 64 bits as Spark SQL, exact however large a sum on the way is.

A DECIMAL of Spark has 38 digits. A sum that once needs more is lost, even if later rows would have made it small again.
So a number is summed in two parts: its unscaled integer is `high · 10¹⁹ + low`, where both parts have at most 19 digits
and the sign of the number. The sum of a part has room for 10¹⁹ rows.
"""

from __future__ import annotations

from weft.algebra import DataType, Kind

#: A sum of numbers of so many digits has room for ten more.
_SAFE_DIGITS = 28

#: Digits of the low part.
_LOW_DIGITS = 19
_UNIT = f"{10**_LOW_DIGITS}BD"


def needs_parts(type_: DataType) -> bool:
    """Whether a sum of numbers of a type may need more digits on the way than a DECIMAL of Spark has."""
    return type_.kind is Kind.HUGEINT or (type_.kind is Kind.DECIMAL and type_.precision > _SAFE_DIGITS)


def summed(argument: str, type_: DataType) -> str:
    """The two parts of the sum of an argument: an aggregate that gives a struct."""
    low = f"({argument}) % {decimal_constant(10**_LOW_DIGITS, type_.scale)}"
    high = f"(({argument}) - {low}) / {decimal_constant(10**_LOW_DIGITS, type_.scale)}"
    return _parts(
        f"sum(CAST({high} AS DECIMAL(19,0)))",
        f"sum(CAST(({low}) / {decimal_constant(1, type_.scale)} AS DECIMAL(19,0)))",
    )


def merged(parts: str) -> str:
    """The parts of a sum of sums: an aggregate of structs that gives a struct."""
    return _parts(f"sum({parts}.high)", f"sum({parts}.low)")


def total(parts: str, source: DataType, type_: str) -> str:
    """The sum as a DECIMAL type with the scale of the argument; NULL if it does not fit."""
    unscaled = f"try_add(try_multiply(s.high, {_UNIT}), s.low)"
    return _value(_settled(parts, "1"), _decimal_value(unscaled, source.scale, type_))


def mean(parts: str, count: str, source: DataType, result: DataType, type_: str) -> str:
    """The sum divided by the number of rows: a DOUBLE, or a DECIMAL that is rounded half away from zero.

    The division is done part by part, as by hand: so the mean may fit where the sum does not.
    """
    settled = _settled(parts, count)
    if result.is_floating:
        return _value(settled, f"try_divide(CAST(s.high AS DOUBLE) * 1e{_LOW_DIGITS} + CAST(s.low AS DOUBLE), s.n)")
    more = 10 ** (result.scale - source.scale)
    rest = f"try_multiply((s.high % s.n) * {_UNIT} + s.low, {more}BD)"
    divided = _mapped(settled, n="s.n", high=_quotient("s.high", "s.n"), low=_whole(rest))
    rounding = "CASE WHEN 2BD * abs(s.low % s.n) < s.n THEN 0BD WHEN s.low > 0 THEN 1BD ELSE -1BD END"
    low = f"try_add({_quotient('s.low', 's.n')}, {rounding})"
    unscaled = f"try_add(try_multiply(s.high, {10**_LOW_DIGITS * more}BD), {low})"
    return _value(divided, _decimal_value(unscaled, result.scale, type_))


def decimal_constant(unscaled: int, scale: int) -> str:
    """A DECIMAL constant of Spark SQL by its unscaled integer."""
    digits = str(unscaled).rjust(scale + 1, "0")
    return f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}BD" if scale else f"{digits}BD"


def _parts(high: str, low: str) -> str:
    return f"named_struct('high', {_whole(high)}, 'low', {_whole(low)})"


def _whole(text: str) -> str:
    return f"CAST({text} AS DECIMAL(38,0))"


def _quotient(dividend: str, divisor: str) -> str:
    """A quotient without its fraction: Spark divides a whole multiple exactly."""
    return _whole(f"({dividend} - {dividend} % {divisor}) / {divisor}")


def _mapped(structs: str, **fields: str) -> str:
    """Structs made of others, which are called `s`."""
    listed = ", ".join(f"'{name}', {text}" for name, text in fields.items())
    return f"transform({structs}, s -> named_struct({listed}))"


def _value(structs: str, text: str) -> str:
    """What is computed from the only struct of an array, which is called `s`."""
    return f"transform({structs}, s -> {text})[0]"


def _settled(parts: str, count: str) -> str:
    """The sum with a low part below 10¹⁹ that has the sign of the high part, and the number of rows, NULL for 0."""
    carried = _mapped(
        f"array(named_struct('p', {parts}, 'n', CAST(nullif({count}, 0) AS DECIMAL(19,0))))",
        n="s.n",
        high=_whole(f"s.p.high + {_quotient('s.p.low', _UNIT)}"),
        low=_whole(f"s.p.low % {_UNIT}"),
    )
    borrowed = "CASE WHEN s.high > 0 AND s.low < 0 THEN 1BD WHEN s.high < 0 AND s.low > 0 THEN -1BD ELSE 0BD END"
    return _mapped(carried, n="s.n", high=_whole(f"s.high - {borrowed}"), low=_whole(f"s.low + {borrowed} * {_UNIT}"))


def _decimal_value(unscaled: str, scale: int, type_: str) -> str:
    """A DECIMAL by its unscaled integer. Arithmetic of Spark could give up decimals; reading a text does not."""
    return f"try_cast(concat(CAST({unscaled} AS STRING), 'E-{scale}') AS {type_})"
