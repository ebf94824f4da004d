"""Signatures: which conditions hold for a row, as a few small numbers.

Rows for which the same conditions of all queries hold go into the same partials. Few conditions are a bit each:

    CASE WHEN price > 100 THEN 1 ELSE 0 END + CASE WHEN sym = 'a' THEN 2 ELSE 0 END

A thousand comparisons of one expression with constants are one number: the elementary interval that its value lies in.
With bounds b₀ < b₁ < … the value has the code 2j + 1 if it equals bⱼ, and 2j if it lies just below bⱼ; codes that no
condition separates are one. A few bounds are compared in a tree. Many are data, not expressions: a grid says how many
bounds lie before the value's stretch, and the few inside it are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.plan.nodes import Condition

#: Bits in a word.
_WORD = 62
#: Comparisons of one expression that are worth a code.
_WORTH_A_CODE = 6
#: The most bounds that are compared in a tree: Spark plans it faster than a grid, which has hundreds of constants, and
#: evaluates it as fast.
_MOST_IN_A_TREE = 16
#: The stretches that a grid has at most, and the bounds in one of them.
_LONGEST_GRID = 8_192
_MOST_INSIDE = 6

#: How a condition is read off a signature: [column, "bit", number] or [column, comparison, position of its bound].
Decoder = tuple[int, str, int]

#: Codes from the first up to, not including, the other; None is the end.
Span = tuple[int, int | None]


@dataclass(frozen=True)
class Signatures:
    """The numbers of a row's signature as Spark SQL, and how each condition is read off them, by its text."""

    columns: tuple[str, ...]
    decoders: Mapping[str, Decoder]

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of different values that each column may have, from how conditions are read off it; -1 is one."""
        widths = [0] * len(self.columns)
        for column, kind, position in self.decoders.values():
            highest = (1 << position + 1) - 1 if kind == "bit" else 2 * position + 2
            widths[column] = max(widths[column], highest + 2)
        return tuple(widths)

    def wanted(self, queries: Iterable[Sequence[Condition]], numbers: Sequence[str]) -> str | None:
        """Whether some query may take a row, as SQL over the numbers of its signature; None if every row is taken.

        Only one condition of each query is tested, so that some rows pass which no query takes.
        """
        masks: dict[int, int] = {}
        spans: dict[int, set[Span]] = {}
        for conditions in queries:
            if not conditions:
                return None
            column, kind, position = max(
                (self.decoders[each.text] for each in conditions), key=lambda each: each[1] != "bit"
            )
            if kind == "bit":
                masks[column] = masks.get(column, 0) | 1 << position
            else:
                spans.setdefault(column, set()).add(span_of(kind, position))
        bits = [f"({numbers[column]} & {mask}L) <> 0L" for column, mask in masks.items()]
        codes = []
        for column, found in spans.items():
            last = max(2 * _LONGEST_GRID * _MOST_INSIDE if end is None else end - 1 for _, end in found)
            codes.append(f"{numbers[column]} BETWEEN {min(first for first, _ in found)} AND {last}")
        return " OR ".join([*bits, *codes])


def signatures(conditions: Iterable[Condition]) -> Signatures:
    """The shortest signatures for some conditions."""
    distinct = sorted(set(conditions), key=lambda each: each.text)
    columns: list[str] = []
    decoders: dict[str, Decoder] = {}
    by_expression: dict[str, list[Condition]] = {}
    for each in distinct:
        if each.compared is not None:
            by_expression.setdefault(each.compared, []).append(each)
    for compared, group in by_expression.items():
        code = _code(compared, group) if len(group) >= _WORTH_A_CODE else None
        if code is not None:
            positions = {bound: position for position, bound in enumerate(sorted({e.bound for e in group}))}
            decoders |= {e.text: (len(columns), e.comparison, positions[e.bound]) for e in group}
            columns.append(code)
    bits = [each for each in distinct if each.text not in decoders]
    for start in range(0, len(bits), _WORD):
        word = bits[start : start + _WORD]
        decoders |= {each.text: (len(columns), "bit", position) for position, each in enumerate(word)}
        columns.append(" + ".join(f"CASE WHEN {e.text} THEN {1 << n}L ELSE 0L END" for n, e in enumerate(word)))
    return Signatures(tuple(columns), decoders)


#: Comparisons with a bound, each with what it adds to the code of a value that is just below the bound.
_Steps = tuple[tuple[str, int], ...]


def _code(value: str, conditions: Sequence[Condition]) -> str | None:
    """The code of a value, or None if its bounds lie too close together to be looked up."""
    bounds, comparisons = sorted({each.bound for each in conditions}), {each.comparison for each in conditions}
    # Values that no condition separates have one code.
    steps: _Steps = ((">", 2), ("=", 1))
    if comparisons <= {">", "<="}:
        steps = ((">", 2),)
    elif comparisons <= {">=", "<"}:
        steps = ((">=", 2),)
    code = _tree(value, bounds, steps, 0) if len(bounds) <= _MOST_IN_A_TREE else _grid(value, bounds, steps)
    return None if code is None else f"CASE WHEN {value} IS NULL THEN -1 ELSE {code} END"


def _tree(value: str, bounds: Sequence[float | int], steps: _Steps, code: int) -> str:
    """The code of a value that has this one if it lies below all of these bounds."""
    if not bounds:
        return str(code)
    middle = len(bounds) // 2
    bound = _constant(bounds[middle])
    whens = ""
    for comparison, step in steps:
        at = code + 2 * middle + step
        found = str(at) if comparison == "=" else _tree(value, bounds[middle + 1 :], steps, at)
        whens += f" WHEN {value} {comparison} {bound} THEN {found}"
    return f"CASE{whens} ELSE {_tree(value, bounds[:middle], steps, code)} END"


def _grid(value: str, bounds: Sequence[float | int], steps: _Steps) -> str | None:
    """The code of a value by look-up, or None if its bounds lie too close together for that."""
    low, high = float(bounds[0]), float(bounds[-1])
    if not high > low:
        return None
    size = 1 << (2 * len(bounds)).bit_length()
    while True:
        scale = (size - 1) / (high - low)
        # The very arithmetic that Spark does, so that a bound falls into the stretch of the values equal to it.
        stretches = np.clip((np.array(bounds, dtype=np.float64) - low) * scale, 0, size - 1).astype(np.int64)
        inside = int(np.bincount(stretches).max())
        if inside <= 2 or size >= _LONGEST_GRID:
            break
        size *= 2
    if inside > _MOST_INSIDE or not math.isfinite(scale):
        return None
    before = np.searchsorted(stretches, np.arange(size))
    tables = [
        ", ".join(
            _constant(bounds[first + n]) if first + n < len(bounds) and stretches[first + n] == at else "NULL"
            for at, first in enumerate(before.tolist())
        )
        for n in range(inside)
    ]
    at = f"CAST(least(greatest((CAST({value} AS DOUBLE) - {low!r}D) * {scale!r}D, 0D), {size - 1}D) AS INT)"
    compared = (
        "".join(f" WHEN {value} {comparison} array({table})[{at}] THEN {step}" for comparison, step in steps)
        for table in tables
    )
    begun = f"array({', '.join(str(2 * each) for each in before.tolist())})[{at}]"
    return begun + "".join(f" + CASE{each} ELSE 0 END" for each in compared)


def _constant(bound: float | int) -> str:
    return f"{bound!r}D" if isinstance(bound, float) else f"{bound}L"


def satisfying(
    decoders: Mapping[str, Decoder], codes: Sequence[NDArray[Any]], texts: Iterable[str], rows: int
) -> NDArray[np.bool_]:
    """Which of some signatures satisfy all of these conditions."""
    result = np.ones(rows, dtype=bool)
    for text in texts:
        column, kind, position = decoders[text]
        if kind == "bit":
            result &= (codes[column] >> position) & 1 == 1
            continue
        first, end = span_of(kind, position)
        result &= codes[column] >= first
        if end is not None:
            result &= codes[column] < end
    return result


def span_of(comparison: str, position: int) -> Span:
    """The codes of the values that compare so with a bound. NULL, which has the code -1, never does."""
    equal = 2 * position + 1
    first = {">": equal + 1, ">=": equal, "=": equal}.get(comparison, 0)
    return first, {"<": equal, "<=": equal + 1, "=": equal + 1}.get(comparison)
