from __future__ import annotations

from fractions import Fraction

from lab.weaving.costings import by_operations
from lab.weaving.measures import measures_of, record_of
from lab.weaving.plans import kernels_of, weave
from weft.algebra import Window
from weft.algebra.types import BIGINT, DOUBLE
from weft.optimizer.weave.costing import Acq


def of(function: str) -> Acq:
    return Acq(Window(60, 10), measures_of(function, ["price"], [BIGINT]))


def test_sum_count_and_average_of_one_column_are_one_record() -> None:
    alone = record_of({of("avg"): 1})
    assert len(alone) == 2
    assert record_of({of("avg"): 1, of("sum"): 1, of("count"): 5}) == alone


def test_a_measure_of_another_column_or_function_is_another() -> None:
    other = Acq(Window(60, 10), measures_of("sum", ["quantity"], [BIGINT]))
    assert len(record_of({of("sum"): 1, other: 1})) == 4
    assert len(record_of({of("sum"): 1, of("max"): 1})) == 3


def test_measures_allow_the_kernels_that_may_serve_them() -> None:
    (count,) = measures_of("count", ["price"], [BIGINT])
    assert "prefix" in count.kernels
    (greatest,) = measures_of("max", ["price"], [BIGINT]) - {count}
    assert "slickdeque_noninv" in greatest.kernels
    assert "prefix" not in greatest.kernels
    doubles = {measure.name: measure for measure in measures_of("sum", ["price"], [DOUBLE])}
    assert "prefix" not in doubles["sum(price)"].kernels


def test_groups_have_a_kernel_for_each_measure() -> None:
    load = Acq(Window(60, 10), measures_of("sum", ["load"], [DOUBLE]))
    plan = weave([of("avg"), of("max"), load], by_operations()).plan(Fraction(100))
    kernels = {lane.measure.name: kernel for lane, kernel in kernels_of(plan.groups[0], plan.costing).items()}
    assert set(kernels) == {
        "count(price)",
        "sum(price)",
        "max(price)",
        "count(load)",
        "sum(load)",
        "nonfinite(load)",
    }
    assert all(kernel in lane.measure.kernels for lane, kernel in kernels_of(plan.groups[0], plan.costing).items())
