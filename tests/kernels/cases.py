"""Statistics of every kind with random partials, and recomputation: what every kernel is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.algebra.types import BIGINT, DOUBLE, STRING
from weft.kernels.grouped import WindowAnswers
from weft.kernels.kernel import Kernel
from weft.kernels.monoids import (
    COUNT,
    MOMENTS,
    SUM_OF_DOUBLES,
    extreme,
    extreme_record,
    sum_of_integers,
)
from weft.kernels.sparse import AnswerRows
from weft.kernels.statistic import FLOAT64, INT64, OBJECT, Columns, Statistic, Values

Draw = Callable[[np.random.Generator, int], tuple[Values, ...]]


def some(values: np.ndarray, rng: np.random.Generator) -> Values:
    """The values, about a fifth of them NULL."""
    return Values(values, rng.random(len(values)) > 0.2)


def small_integers(rng: np.random.Generator, count: int) -> tuple[Values, ...]:
    return (some(rng.integers(-50, 50, count), rng),)


def large_integers(rng: np.random.Generator, count: int) -> tuple[Values, ...]:
    return (some(rng.integers(-(2**63), 2**63 - 1, count), rng),)


def doubles(rng: np.random.Generator, count: int) -> tuple[Values, ...]:
    return (some(rng.normal(size=count) * 10.0 ** rng.integers(-3, 4, count), rng),)


def texts(rng: np.random.Generator, count: int) -> tuple[Values, ...]:
    return (some(np.array([chr(97 + letter) for letter in rng.integers(0, 26, count)], dtype=object), rng),)


def pairs(rng: np.random.Generator, count: int) -> tuple[Values, ...]:
    return (some(rng.integers(0, 4, count), rng), some(rng.integers(0, 4, count).astype(np.float64), rng))


def texts_by_integers(rng: np.random.Generator, count: int) -> tuple[Values, ...]:
    return (*texts(rng, count), some(rng.integers(0, 4, count), rng))


def _objects(function: Callable[[object, object], object]) -> Callable[[Columns, Columns], Columns]:
    return lambda left, right: (np.asarray(np.frompyfunc(function, 2, 1)(left[0], right[0]), dtype=object),)


# Statistics of Python objects: one that minds the order, one with an inverse that is not a sum, and some whose inverse
# leaves rounding errors.
CONCATENATION = Statistic(
    name="concatenation",
    dtypes=(OBJECT,),
    identity=("",),
    lift=lambda x: (np.where(x.valid, x.values, ""),),
    combine=_objects(lambda left, right: left + right),
    commutative=False,
)
FLOAT_SUM = Statistic(
    name="float_sum",
    dtypes=(OBJECT,),
    identity=(0.0,),
    lift=lambda x: (np.where(x.valid, x.values, 0.0).astype(object),),
    combine=_objects(lambda left, right: left + right),
    inverse=_objects(lambda total, part: total - part),
    exact=False,
)
XOR = Statistic(
    name="xor",
    dtypes=(INT64,),
    identity=(0,),
    lift=lambda x: (np.where(x.valid, x.values, 0),),
    combine=lambda left, right: (left[0] ^ right[0],),
    inverse=lambda total, part: (total[0] ^ part[0],),
)
LOG_PRODUCT = Statistic(
    name="log_product",
    dtypes=(FLOAT64,),
    identity=(0.0,),
    lift=lambda x: (np.where(x.valid, np.log1p(np.abs(x.values)), 0.0),),
    combine=lambda left, right: (left[0] + right[0],),
    inverse=lambda total, part: (total[0] - part[0],),
    exact=False,
)
BITS = Statistic(
    name="bits",
    dtypes=(INT64,),
    identity=(0,),
    lift=lambda x: (np.where(x.valid, 1 << (x.values % 50), 0),),
    combine=lambda left, right: (left[0] | right[0],),
)


@dataclass(frozen=True)
class Case:
    statistic: Statistic
    draw: Draw

    def records(self, rng: np.random.Generator, *shape: int) -> Columns:
        """Random partials: each is of one row, or of none."""
        lifted = self.statistic.lift(*self.draw(rng, int(np.prod(shape))))
        return tuple(column.reshape(shape + column.shape[1:]) for column in lifted)


CASES = {
    "count": Case(COUNT, small_integers),
    "sum of integers": Case(sum_of_integers(2), large_integers),
    "sum of hugeints": Case(sum_of_integers(4), large_integers),
    "sum of doubles": Case(SUM_OF_DOUBLES, doubles),
    "min of doubles": Case(extreme(DOUBLE, False), doubles),
    "max of doubles": Case(extreme(DOUBLE, True), doubles),
    "min of integers": Case(extreme(BIGINT, False), small_integers),
    "max of integers": Case(extreme(BIGINT, True), small_integers),
    "max of text": Case(extreme(STRING, True), texts),
    "min_by": Case(extreme_record((DOUBLE,), BIGINT, False), pairs),
    "max_by": Case(extreme_record((DOUBLE,), BIGINT, True), pairs),
    "max_by of text": Case(extreme_record((BIGINT,), STRING, True), texts_by_integers),
    "moments": Case(MOMENTS, doubles),
    "concatenation": Case(CONCATENATION, texts),
    "float_sum": Case(FLOAT_SUM, doubles),
    "xor": Case(XOR, small_integers),
    "log product": Case(LOG_PRODUCT, doubles),
    "bits": Case(BITS, small_integers),
}


def slide_on(kernel: Kernel, partials: Columns, length: int) -> Columns:
    """Takes in partials one by one, and answers after each for the newest `length` of them."""
    ends = np.arange(kernel.next + 1, kernel.next + 1 + len(partials[0]))
    return kernel.slide(partials, np.maximum(ends - length, kernel.first)[:, np.newaxis])


class Recomputation:
    """What a kernel should answer: all partials of the window, folded from the oldest to the newest, every time."""

    def __init__(self, statistic: Statistic, width: int) -> None:
        self.statistic = statistic
        self.width = width
        self.partials: dict[int, Columns] = {}
        self.next = 0

    def push(self, partial: Columns) -> None:
        self.partials[self.next] = tuple(column.copy() for column in partial)
        self.next += 1

    def evict(self, start: int) -> None:
        for sequence in [held for held in self.partials if held < start]:
            del self.partials[sequence]

    def query(self, start: int) -> Columns:
        answer = self.statistic.empty(self.width)
        for sequence in range(start, self.next):
            answer = self.statistic.combine(answer, self.partials[sequence])
        return answer

    def amend(self, sequence: int, late: Columns, columns: np.ndarray) -> None:
        held = self.partials[sequence]
        combined = self.statistic.combine(tuple(column[columns] for column in held), late)
        for column, values in zip(held, combined, strict=True):
            column[columns] = values

    def select(self, columns: np.ndarray) -> None:
        for sequence, held in self.partials.items():
            chosen = self.statistic.empty(len(columns))
            for column, source in zip(chosen, held, strict=True):
                column[columns >= 0] = source[columns[columns >= 0]]
            self.partials[sequence] = chosen
        self.width = len(columns)


def rows_of(answers: WindowAnswers, present: np.ndarray) -> AnswerRows:
    """The answers for keys that are present in their windows."""
    answer, at = np.nonzero(present)
    records = {name: tuple(column[answer, at] for column in columns) for name, columns in answers.records.items()}
    return AnswerRows(answer, answers.keys[at], records)


def assert_same(actual: Columns, expected: Columns, message: object = "") -> None:
    """Floats within 1e-9, everything else to the last bit."""
    for mine, its in zip(actual, expected, strict=True):
        assert mine.shape == its.shape, message
        if its.dtype.kind == "f" or (its.dtype == object and its.size and isinstance(its.flat[0], float)):
            np.testing.assert_allclose(
                mine.astype(np.float64), its.astype(np.float64), rtol=1e-9, atol=1e-9, err_msg=str(message)
            )
        else:
            assert all(a == b for a, b in zip(mine.ravel().tolist(), its.ravel().tolist(), strict=True)), message
