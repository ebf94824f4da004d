"""What the figures of operator placement are computed from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.figures.placement import DEFINITIONS, FULL, QUICK
from lab.figures.placement.operators import Operators, Split
from lab.figures.placement.partner_bounds import settled_by
from lab.figures.placement.setting import Effort
from lab.placement.simulated.cluster import Move


def _moved(*seconds: float) -> Any:
    return cast(Any, SimpleNamespace(moves=[Move(second, 0, 0, 1) for second in seconds]))


def test_settled_is_when_nine_of_ten_migrations_have_begun() -> None:
    moved = _moved(5.0, *(11.0 + 0.5 * number for number in range(10)), 40.0)
    assert settled_by(moved, since=10.0, until=30.0) == pytest.approx(5.0)
    assert settled_by(moved, since=10.0, until=30.0, share=0.5) == pytest.approx(3.0)
    assert settled_by(moved, since=50.0) == 0.0


def test_operators_are_compared_with_fragments_of_the_same_kind() -> None:
    found = Operators(
        [
            Split(scheme, 3.0, shared, ratio, ratio, 1.0, 1.0, 0)
            for scheme, shared, ratio in (
                ("flow-aware", True, 10.0),
                ("OP-based", True, 50.0),
                ("flow-aware", False, 10.0),
                ("OP-based", False, 12.0),
            )
        ]
    )
    assert found.ratio(3.0, shared=True) == 5.0
    assert found.ratio(3.0, shared=False) == 1.2


@pytest.mark.parametrize("effort", [QUICK, FULL])
def test_nodes_have_as_much_to_do_in_a_small_cluster_as_in_the_whole_one(effort: Effort) -> None:
    setting, network = effort.setting(), effort.network()
    assert setting.queries / setting.nodes == 500 / 32
    assert network.bits_per_second / setting.nodes == 100e6 / 32
    assert effort.network(shared=False).bits_per_second == 100e6
    assert 3.0 in effort.operators
    assert {0, 4} <= set(effort.bounds)


def test_every_key_is_defined() -> None:
    assert set(DEFINITIONS) == {"settle_seconds", "flow_aware_traffic_return", "opbased_over_qf_3ops"}
