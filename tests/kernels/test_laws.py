"""The laws of every statistic, and what happens to a function that breaks one."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.cases import CASES, Case
from weft.algebra.types import DOUBLE, HUGEINT, decimal
from weft.kernels import aggregate_functions as functions
from weft.kernels.aggregate_functions import FUNCTIONS, define
from weft.kernels.laws import LawBroken, violations
from weft.kernels.monoids import NONFINITE, ROUNDED_VALUES, SUM_OF_DOUBLES, extreme
from weft.kernels.statistic import Columns, Statistic, Values, fold, same_records

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
        ROUNDED_VALUES,
        *(FUNCTIONS["stddev_pop"].needs([DOUBLE])[0].statistic,),
        *(FUNCTIONS["median"].needs([DOUBLE])[0].statistic,),
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


# Registration ---------------------------------------------------------------------------------------------------------


def defined(name: str, **changes: object) -> None:
    arguments: dict = {
        "identity": 0,
        "lift": lambda x: x or 0,
        "combine": lambda a, b: a + b,
        "lower": lambda total: total,
        "samples": [(1,), (2,), (5,), (None,)],
    }
    try:
        define(name, **(arguments | changes))
    finally:
        FUNCTIONS.pop(name, None)


@pytest.mark.parametrize(
    ("law", "changes"),
    [
        ("identity", {"identity": 1}),
        ("associativity", {"combine": lambda a, b: a * 2 + b if a and b else a or b}),
        ("commutativity", {"combine": lambda a, b: a if a else b}),
        ("inverse", {"inverse": lambda total, part: total}),
        ("selective", {"selective": True}),
    ],
)
def test_a_function_that_breaks_a_law_is_refused(law: str, changes: dict) -> None:
    with pytest.raises(LawBroken, match=law):
        defined("broken", **changes)


def test_a_function_may_mind_the_order_if_it_says_so() -> None:
    defined("first_not_zero", combine=lambda a, b: a if a else b, commutative=False, selective=True)


def test_floats_may_differ_by_rounding_errors() -> None:
    """(0.1 + 0.2) + 0.7 is not 0.1 + (0.2 + 0.7), and is no reason to refuse a function."""
    tenths = [(0.1,), (0.2,), (0.7,), (None,)]
    logs = {"identity": (0, 0.0), "lift": lambda x: (int(x is not None), x or 0.0), "samples": tenths}
    defined("mean_of_logs", combine=lambda a, b: (a[0] + b[0], a[1] + b[1]), **logs)
    with pytest.raises(LawBroken, match="associativity"):
        defined("halves", combine=lambda a, b: (a[0] + b[0], a[1] + b[1] / 2 if a[0] and b[0] else a[1] + b[1]), **logs)


def test_an_inverse_of_floats_must_say_so() -> None:
    changes = {"identity": 0.0, "lift": lambda x: float(x or 0), "inverse": lambda total, part: total - part}
    with pytest.raises(LawBroken, match="say exact=False"):
        defined("sum_of_floats", **changes)
    defined("sum_of_floats", exact=False, **changes)


def test_a_selective_function_returns_its_argument_and_nothing_close_to_it() -> None:
    with pytest.raises(LawBroken, match="not selective"):
        defined(
            "nearly",
            identity=0.0,
            lift=lambda x: float(x or 0),
            combine=lambda a, b: max(a, b) * (1 + 1e-12),
            selective=True,
        )


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="there is a function sum already"):
        define("sum", identity=0, lift=int, combine=max, lower=int, samples=[(1,)])


def test_examples() -> None:
    assert doctest.testmod(functions).failed == 0


def test_a_broken_law_shows_an_example() -> None:
    with pytest.raises(
        LawBroken, match=r"\(a ⊕ b\) ⊖ a = b\. For a = 1, b = 1 the left side is 2 and the right side 1"
    ):
        defined("broken", inverse=lambda total, part: total)


def test_same_records() -> None:
    nan: Columns = (np.array([np.nan, 1.0]),)
    assert same_records(nan, nan)
    assert not same_records(nan, (np.array([1.0, 1.0]),))
    assert SUM_OF_DOUBLES.exact is False
