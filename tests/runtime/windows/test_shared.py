"""Queries that share partials answer as they would alone: the oracle's answers, whatever happens around them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.runtime.windows.dashboards import disagreement, story

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compacting_early")]


@pytest.mark.parametrize("seed", range(8))
def test_a_dashboard_answers_like_the_oracle(spark: SparkSession, seed: int) -> None:
    assert disagreement(spark, story(seed, most_queries=12)) == ""


def test_two_hundred_queries_answer_like_the_oracle(spark: SparkSession) -> None:
    told = story(2013, most_queries=240, alone=0.0)
    assert len(told.queries) > 100
    assert disagreement(spark, told) == ""


@pytest.mark.prove
@pytest.mark.timeout(2 * 60 * 60)
@pytest.mark.parametrize("first", range(100, 400, 10))
def test_three_hundred_dashboards_answer_like_the_oracle(spark: SparkSession, first: int) -> None:
    for seed in range(first, first + 10):
        most = 200 if seed % 20 == 0 else 16
        assert disagreement(spark, story(seed, most_queries=most, alone=0.0 if most > 16 else 0.3)) == "", (
            f"seed {seed}"
        )
