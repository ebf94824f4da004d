"""From aggregate functions to measures: what the queries of a tree keep in one partial record.

AVG(price) is SUM(price) over COUNT(price), so a tree that serves SUM, COUNT and AVG of one column keeps two numbers in
a partial, whatever the number of its queries. A measure says which: the statistic, and of which columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra.types import DataType
from weft.kernels.aggregate_functions import FUNCTIONS, Need
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel import why_not
from weft.optimizer.weave.costing import AcqMeasure, Counted


def measures_of(function: str, columns: Sequence[str], types: Sequence[DataType]) -> frozenset[AcqMeasure]:
    """What a function of these columns needs. Functions that need the same share it.

    >>> from weft.algebra.types import BIGINT
    >>> average, total = measures_of("avg", ["price"], [BIGINT]), measures_of("sum", ["price"], [BIGINT])
    >>> sorted(measure.name for measure in average), average == total
    (['count(price)', 'sum(price)'], True)
    """
    return frozenset(_measure(need, columns) for need in FUNCTIONS[function].needs(types))


def record_of(queries: Counted) -> tuple[AcqMeasure, ...]:
    """The partial record of a tree for these queries: every measure once."""
    return tuple(sorted({measure for query in queries for measure in query.measures}))


def _measure(need: Need, columns: Sequence[str]) -> AcqMeasure:
    of = ", ".join(columns[argument] for argument in need.arguments if argument < len(columns))
    # Kernels that serve one range only have no place in a tree.
    kernels = tuple(
        name for name, algorithm in ALGORITHMS.items() if why_not(algorithm, need.statistic, ranges=2) is None
    )
    return AcqMeasure(f"{need.statistic.name}({of or '*'})", kernels)
