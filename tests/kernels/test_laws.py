"""The laws of every statistic; and that a broken law is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import CASES, Case
from tests.kernels.laws import violations
from weft.algebra.types import DOUBLE, HUGEINT, decimal
from weft.kernels.aggregate_functions import FUNCTIONS
from weft.kernels.monoids import NONFINITE, SUM_OF_DOUBLES, extreme
from weft.kernels.statistic import INT64, Columns, Statistic, Values, fold, same_records

EXTREME_DOUBLES = Values(
    np.array([0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, np.inf, -np.inf, np.nan, 1.0]),
    np.array([True] * 10 + [False]),
)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_laws(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = case.records(rng, 30)
    # Partials of several rows, and of none.
    partials = fold(case.statistic, rows, rng.integers(0, 8, 30), 9)
    assert list(violations(case.statistic, partials)) == []


@pytest.mark.parametrize(
    "statistic",
    [
        extreme(DOUBLE, False),
        extreme(DOUBLE, True),
        NONFINITE,
        *(FUNCTIONS["stddev_pop"].needs([DOUBLE])[0].statistic,),
    ],
    ids=lambda statistic: statistic.name,
)
def test_laws_of_extreme_doubles(statistic: Statistic) -> None:
    records = statistic.lift(EXTREME_DOUBLES)
    if statistic.name == "moments":
        # Huge values lose their lower digits to any order of merging; that is IEEE's law, not ours.
        records = tuple(column[[0, 1, 2, 3, 7, 8, 9, 10]] for column in records)
    assert list(violations(statistic, records)) == []


@pytest.mark.parametrize("type_", [HUGEINT, decimal(38, 2)], ids=str)
def test_laws_of_wide_integers(type_: object) -> None:
    numbers = np.array([0, 1, -1, 2**64, -(2**64), 10**37, -(10**37), 2**63], dtype=object)
    column = Values(numbers, np.ones(len(numbers), dtype=bool))
    for name in ("min", "max", "sum"):
        for need in FUNCTIONS[name].needs([type_]):
            assert list(violations(need.statistic, need.statistic.lift(column))) == []


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(0, 40), groups=st.integers(1, 6))
def test_fold_keeps_the_order_of_rows(seed: int, rows: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    case = CASES["concatenation"]
    records, members = case.records(rng, rows), rng.integers(0, groups, rows)
    folded = fold(case.statistic, records, members, groups)
    for group in range(groups):
        assert folded[0][group] == "".join(records[0][members == group])


def integers(**changes: object) -> Statistic:
    """A statistic of single integers that keeps all laws, but for the changes."""
    plain = Statistic(
        name="broken",
        dtypes=(INT64,),
        identity=(0,),
        lift=lambda x: (np.where(x.valid, x.values, 0),),
        combine=lambda left, right: (left[0] + right[0],),
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("law", "changes"),
    [
        ("identity", {"identity": (1,)}),
        ("associativity", {"combine": lambda a, b: (a[0] + 2 * b[0],)}),
        ("commutativity", {"combine": lambda a, b: (np.where(a[0] != 0, a[0], b[0]),)}),
        ("inverse", {"inverse": lambda total, part: total}),
        ("selective", {"selective": True}),
    ],
)
def test_a_broken_law_is_found(law: str, changes: dict) -> None:
    assert list(violations(integers(), (np.array([1, 2, 5]),))) == []
    assert any(law in each for each in violations(integers(**changes), (np.array([1, 2, 5]),)))


def test_a_broken_law_shows_an_example() -> None:
    (found,) = violations(integers(inverse=lambda total, part: total), (np.array([1, 2]),))
    assert "(a ⊕ b) ⊖ a = b. For a = 1, b = 1 the left side is 2 and the right side 1" in found


def test_same_records() -> None:
    nan: Columns = (np.array([np.nan, 1.0]),)
    assert same_records(nan, nan)
    assert not same_records(nan, (np.array([1.0, 1.0]),))
    assert SUM_OF_DOUBLES.exact is False
