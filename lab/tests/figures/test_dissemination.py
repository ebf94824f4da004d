"""The set-up of the dissemination figures is the thesis's, and the figures read as they should."""

from __future__ import annotations

import numpy as np
import pytest

from lab.dissemination.construction import one_bundle, star
from lab.dissemination.cost import evaluate
from lab.figures.dissemination import workload
from lab.figures.dissemination.many_objects import SingleOrMany
from lab.figures.dissemination.schemes import SA, Loss
from lab.figures.dissemination.single_object import over_sa, slowed


def test_one_object_is_as_the_thesis_has_it() -> None:
    overlay = workload.one_object(seed=1, load=3)
    assert overlay.nodes == 257
    between = overlay.delay[1:, 1:][~np.eye(256, dtype=bool)]
    assert between.mean() == pytest.approx(0.020)
    assert overlay.filter_time[0] == overlay.filter_time.min() == 0.001
    assert overlay.filter_time[1:].mean() == pytest.approx(0.015, rel=0.1)
    assert overlay.send_time[1:].mean() == pytest.approx(0.003, rel=0.1)
    assert overlay.rates[0, 0] == overlay.rates.max()
    assert overlay.rates[1:].min() >= 0.5
    assert overlay.rates[1:].max() <= 1.5


def test_the_source_alone_is_used_to_an_eighth_with_100_objects_and_five_times_that_with_500() -> None:
    loads = []
    for objects in (100, 500):
        overlay = workload.many_objects(1, objects)
        assert np.count_nonzero(overlay.rates[1:]) / overlay.rates[1:].size == pytest.approx(0.6, abs=0.02)
        loads.append(evaluate(overlay, star(overlay, one_bundle(overlay))).loads[0])
    assert loads == pytest.approx([0.12, 0.60], rel=0.1)


def test_ratios_read_as_they_should() -> None:
    found = {SA: Loss(2.0, 4.0), "DiTA": Loss(5.0, 6.0)}
    assert over_sa(found, "DiTA") == (2.5, 1.5)
    assert SingleOrMany(1.0, single=Loss(1.0, 2.0), many=Loss(1.0, 1.0)).ratio == 0.5


def test_only_the_nodes_named_become_slow() -> None:
    overlay = workload.one_object(seed=1, nodes=20)
    busy = slowed(overlay, [3, 4])
    assert np.flatnonzero(busy.filter_time != overlay.filter_time).tolist() == [3, 4]
    assert busy.send_time[3] == pytest.approx(10 * overlay.send_time[3])
