"""What cycles measure of the network: that it is true, whatever Spark selects before anybody counts."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from tests.runtime.workload_run import Run
from weft.arrays.row_keys import KeyHashes
from weft.optimizer.network.sizes import SizeKey, SizeKind
from weft.predicates.domains import satisfying
from weft.predicates.row_matching import Check, PlainColumn, RowMatcher
from weft.runtime.stages.joins.join_statistics import KEPT_HASHES, DistinctCount
from weft.runtime.stages.joins.network_records import recorded_sizes

STREAM = "CREATE STREAM f (n BIGINT, k INT, amount INT, kind STRING) WATERMARK FOR n AS n - 5 USING memory;"


def check(column: str, operator: str, bound: int) -> Check:
    return Check(PlainColumn(column), satisfying(operator, Fraction(bound)))


def test_rows_of_nodes_and_of_clauses_are_counted_by_kind() -> None:
    x, y = [1, 5, 7, 9, 9, None], [0, 0, 3, 3, 0, 3]
    evaluator = RowMatcher({1: ((check("x", ">", 4),), (check("y", "=", 3),)), 2: ((check("x", ">", 8),),), 3: ()})
    found = evaluator.of(pa.table({"x": pa.array(x, pa.int64()), "y": pa.array(y, pa.int64())}))
    assert [found.count(node) for node in (1, 2, 3)] == [2, 2, 6]
    numbers = list(evaluator.clauses.values())
    assert found.satisfying(numbers) == [4, 3, 2]
    assert found.satisfying(numbers, np.array([True, True, True, False, False, True])) == [2, 2, 0]
    nothing = evaluator.of(pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}))
    assert nothing.satisfying(numbers) == [0, 0, 0]
    assert nothing.count(1) == 0


@pytest.mark.parametrize("count", [1, 50, KEPT_HASHES - 1, 5_000, 200_000])
def test_values_are_counted_well_enough(count: int) -> None:
    values, column = DistinctCount(), np.arange(count) % count
    for part in np.array_split(np.concatenate([column, column]), 7):
        numbers, present = KeyHashes(pa.table({"x": pa.array(part)})).of_column("x")
        values.add(numbers[present])
    if count < KEPT_HASHES:
        assert values.count == count
    else:
        # Six percent is one standard deviation.
        assert values.count == pytest.approx(count, rel=0.25)


def test_values_that_come_no_more_are_forgotten_in_time() -> None:
    values = DistinctCount()
    many, _ = KeyHashes(pa.table({"x": pa.array(np.arange(200))})).of_column("x")
    for _ in range(10):
        values.add(many)
    for _ in range(70):
        values.add(many[:20])
    assert values.count == 20


@pytest.mark.spark
def test_shares_are_those_of_all_rows_not_of_those_that_somebody_wants(beside_oracle: Callable[[str], Run]) -> None:
    """Spark is asked for rows of large amounts alone; of the others a sample comes along."""
    run = beside_oracle(
        STREAM
        + "CREATE CONTINUOUS QUERY some AS SELECT n FROM f WHERE amount > 15 AND kind = 'a';"
        + "CREATE CONTINUOUS QUERY others AS SELECT n FROM f WHERE amount > 18 AND kind = 'b';"
        + "CREATE CONTINUOUS QUERY pairs AS SELECT x.n, y.n AS m FROM f [ROWS 40] x, f [ROWS 40] y "
        "WHERE x.k = y.k AND x.amount > 15 AND y.amount > 15 AND x.n < y.n"
    )
    for cycle in range(6):
        rows = [(20 * cycle + n, n % 4, n, "ab"[n % 2]) for n in range(20)]
        assert run.take(None, f=rows) == ""
    known = recorded_sizes(run.loom.catalog).known
    shares = {each.of: value for each, value in known.items() if each.kind is SizeKind.SHARE and len(each.logs) == 1}
    assert shares["T1.kind = 'a'"] == pytest.approx(0.5, abs=0.02)
    assert shares["T1.amount >= 16"] == pytest.approx(0.2, abs=0.02)
    assert shares["T1.amount >= 19"] == pytest.approx(0.05, abs=0.02)
    assert known[SizeKey(SizeKind.NEW, ("stream f",))] == 20
    assert known[SizeKey(SizeKind.VALUES, ("stream f",), "k")] == 4
    # Four rows of a cycle have large amounts, one for each key. Each looks at one earlier row of its key: that of the
    # cycle before, since the next is forty away. With the rows of three cycles kept, that is 4 of (80² - 60²) · 0.2²
    # pairs of such rows, 0.036; in the second cycle, with fewer rows kept, it was 4 of (40² - 20²) · 0.2², 0.083.
    let_through = known[SizeKey(SizeKind.SHARE, ("stream f", "stream f"), "T1.k - T2.k = 0")]
    assert 0.036 < let_through < 0.083
    (pairs,) = recorded_sizes(run.loom.catalog).pairs.values()
    # Among the rows of two cycles before, a row finds those of its key: what it looks at is what it meets.
    assert pairs[0] >= pairs[1] > 0
