"""What all tests share: one Spark session for the whole run, and the flag that rewrites golden files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# No test is about time: a loaded machine must not fail one.
settings.register_profile("weft", parent=settings(), deadline=None)
settings.load_profile("weft")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="put what the code says now into the golden files of tests/fixtures, and skip the tests that read them",
    )


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the test run: two cores, two shuffle partitions, UTC."""
    from tests.support.spark_session import session

    spark = session("local[2]")
    yield spark
    spark.stop()
