"""What runs for groups of queries has names that no query of a user can have."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.projects import rows_of, run_to_the_end, write_rows
from weft.delivery.assignment import running_epochs
from weft.delivery.nats_connection import subject_token
from weft.loom import Loom

pytestmark = pytest.mark.spark


def test_queries_that_are_called_like_groups_are_queries_like_others(spark: SparkSession, tmp_path: Path) -> None:
    """Before and after a query INTO subscribers, for which the first epoch of group g1 is evaluated."""
    stream = f"CREATE STREAM t (x BIGINT) WATERMARK FOR x AS x USING json OPTIONS (path '{tmp_path / 'in'}')"
    with Loom.open(tmp_path / "project") as loom:
        loom.execute(
            f"{stream};"
            "CREATE CONTINUOUS QUERY `g1.1` AS SELECT x FROM t WHERE x < 3;"
            "CREATE CONTINUOUS QUERY sub INTO subscribers AS SELECT x FROM t WHERE x < 5;"
        )
        write_rows(tmp_path / "in", "0.json", [{"x": n} for n in range(1, 8)])
        run_to_the_end(loom)
        (runner,) = running_epochs(loom.catalog).values()
        assert (runner.stream, runner.epoch) == ("g1", 1)
        loom.execute(
            "CREATE CONTINUOUS QUERY g1 INTO subscribers AS SELECT x FROM t WHERE x > 10;"
            "CREATE CONTINUOUS QUERY `g1.2` AS SELECT x FROM `g1.1` WHERE x > 10;"
            "CREATE CONTINUOUS QUERY `m3.1` AS SELECT x FROM t WHERE x > 11;"
        )
        write_rows(tmp_path / "in", "1.json", [{"x": n} for n in (2, 4, 12)])
        run_to_the_end(loom)
        answers = {each.name: rows_of(loom.results(each.name)) for each in loom.catalog.queries()}
    assert answers == {
        "g1.1": [(1,), (2,), (2,)],
        "sub": [(1,), (2,), (2,), (3,), (4,), (4,)],
        "g1": [(12,)],
        "g1.2": [],
        "m3.1": [(12,)],
    }


def test_no_name_has_the_subject_of_another() -> None:
    hashed = subject_token("a.b")
    assert len({hashed, subject_token(hashed), subject_token("a b"), subject_token("a*b"), "a"}) == 5
    assert subject_token("plain_1") == "plain_1"
