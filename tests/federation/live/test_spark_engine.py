"""weft's engine in the place of the oracle's: parts of streams, clocks of whole ones, one engine after another."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.federation.live.small_federation import PROVIDERS, SmallFederation
from tests.federation.live.test_small_federation import QUERIES, rows
from weft.federation.live.provider_engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_engines_answer_as_the_oracle_does_while_queries_move(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A relative directory whose name has characters that mean something in URIs.
    monkeypatch.chdir(tmp_path)
    directory = Path("a federation: 100%25 #")
    federation = SmallFederation(directory, engine=lambda folder, answers: SparkEngine(spark, folder, answers))
    draw = random.Random(3)
    for number, text in enumerate(QUERIES):
        federation.execute(PROVIDERS[number % 3], f"CREATE CONTINUOUS QUERY q{number} AS {text}")
    for step in range(5):
        federation.publish("trades", rows("trades", 6 * step, draw))
        federation.publish("quotes", rows("quotes", 6 * step, draw))
        if step == 2:
            federation.work()
            for number in range(0, len(QUERIES), 2):
                federation.ask("move", query=f"q{number}", target=PROVIDERS[(number // 2) % 3])
        if step == 3:
            victim = federation.coordination._follower.ledger.query("q1").provider
            federation.kill(victim)
            federation.bury(victim)
    federation.settle()
    assert federation.delivered() == federation.expected()
