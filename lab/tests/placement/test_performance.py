"""The performance ratio by the model."""

from __future__ import annotations

import pytest

from lab.placement.performance import (
    Step,
    evaluation_seconds,
    imbalance,
    predicted,
    transfers,
)

MS = 0.001


def test_two_nodes_and_one_transfer() -> None:
    path = [Step(1 * MS, 0.5, "n1"), Step(1 * MS, 2.0, "n1"), Step(1 * MS, 1.0, "n2")]
    assert evaluation_seconds(path) == pytest.approx((1 * MS, 1 * MS, 2 * MS))
    assert transfers(path) == 1
    ratio = predicted(path, {"n1": 0.5, "n2": 0.75}, transfer_seconds=1 * MS)
    assert (ratio.processing, ratio.communication, ratio.total) == pytest.approx((3.0, 0.25, 3.25))


def test_observation_6_1_equal_loads_make_the_worst_ratio_least() -> None:
    """Two queries, one at each of two nodes that share a load of 1: the worse ratio is least when both have half."""
    path = [Step(MS, 1.0, "n")]
    worst = {
        share: max(predicted(path, {"n": load}, 0.0).total for load in (share, 1.0 - share))
        for share in (0.2, 0.35, 0.5, 0.65, 0.8)
    }
    assert min(worst, key=lambda share: worst[share]) == 0.5


def test_imbalance_is_the_sample_deviation() -> None:
    assert imbalance([0.2, 0.4, 0.6]) == pytest.approx(0.2)
