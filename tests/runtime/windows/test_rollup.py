"""Partials of a cohort against adding them up one by one, whichever way the roll-up takes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from weft.algebra.types import BIGINT
from weft.kernels.monoids import COUNT, extreme
from weft.kernels.statistic import Columns
from weft.optimizer.aggregates.stream_shapes import Measure
from weft.runtime.stages.windows import rollup
from weft.runtime.stages.windows.partials import SLICE, Layout, Partials
from weft.runtime.stages.windows.rollup import RollUp

_COUNTED, _TOTAL, _TOP = "count(1)", "sum(v)", "max(v)"


def _number(columns: tuple[pa.ChunkedArray, ...]) -> Columns:
    return (np.asarray(columns[0].to_numpy()),)


_MEASURES = {
    _COUNTED: Measure(_COUNTED, COUNT, (_COUNTED,), _number),
    _TOTAL: Measure(_TOTAL, COUNT, (_TOTAL,), _number),
    _TOP: Measure(_TOP, extreme(BIGINT, greatest=True), (_TOP,), _number),
}

#: Two conditions of their own, and bounds 10 and 20 of one expression: code 2·i + 1 is the bound itself, −1 is NULL.
_LAYOUT = Layout(
    ("c1",),
    {"a": (0, "bit", 0), "b": (0, "bit", 1), "x > 10": (1, ">", 0), "x <= 20": (1, "<=", 1), "x = 20": (1, "=", 1)},
    2,
    (_COUNTED, _TOTAL, _TOP),
)
_HOLDS = {
    "a": lambda bits, code: bool(bits & 1),
    "b": lambda bits, code: bool(bits & 2),
    "x > 10": lambda bits, code: code > 1,
    "x <= 20": lambda bits, code: 0 <= code <= 3,
    "x = 20": lambda bits, code: code == 3,
}
_COHORTS = [
    (), ("a",), ("a", "b"), ("x > 10",), ("x <= 20",), ("x > 10", "x <= 20"), ("x = 20",), ("a", "x > 10"),
]  # fmt: skip


def _drawn(seed: int, rows: int) -> list[tuple[int, int, int, int, int, int, int]]:
    """Cell, bits, code, key, and the three measures; some places come more than once, as in files that were joined."""
    chance = random.Random(seed)
    return [
        (
            10 * chance.randrange(6),
            chance.randrange(4),
            chance.randrange(-1, 5),
            chance.randrange(5),
            chance.randint(1, 9),
            chance.randint(-50, 50),
            chance.randint(-50, 50),
        )
        for _ in range(rows)
    ]


def _partials(drawn: list[tuple[int, int, int, int, int, int, int]]) -> Partials:
    slices, bits, codes, keys, counts, totals, tops = (pa.array(each, pa.int64()) for each in zip(*drawn, strict=True))
    columns = {SLICE: slices, "g0": bits, "g1": codes, "k0": keys}
    return Partials(_LAYOUT, pa.table({**columns, "p0": counts, "p1": totals, "p2": tops}))


@pytest.mark.parametrize("largest", [0, rollup._LARGEST_LAYOUT], ids=["one by one", "laid out"])
@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize("conditions", _COHORTS, ids=" and ".join)
def test_a_cohort_is_what_adding_up_one_by_one_gives(
    conditions: tuple[str, ...], rows: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "_LARGEST_LAYOUT", largest)
    for seed in range(5):
        drawn = _drawn(seed, rows)
        expected: dict[tuple[int, int], tuple[int, int, int]] = {}
        for start, bits, code, key, count, total, top in drawn:
            if all(_HOLDS[each](bits, code) for each in conditions):
                n, s, t = expected.get((start, key), (0, 0, -(10**9)))
                expected[start, key] = n + count, s + total, max(t, top)
        partials = _partials(drawn)
        numbers = np.asarray(partials.key("c1").to_numpy())
        found = RollUp(partials, numbers).cohort(conditions, _MEASURES)
        actual = {}
        if found is not None:
            values = zip(*(found.records[name][0].tolist() for name in _MEASURES), strict=True)
            actual = dict(zip(zip(found.slices.tolist(), found.keys.tolist(), strict=True), values, strict=True))
            assert len(actual) == len(found)
        assert actual == expected
