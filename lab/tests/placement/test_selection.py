"""What is given away."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.placement.requests import Request
from lab.placement.selection import (
    Movable,
    Strategy,
    allowance,
    load_of,
    ranked,
    select,
)

GIVER, RECEIVER, ELSEWHERE = "giver", "receiver", "elsewhere"
COMPANIES = ((RECEIVER,), (GIVER, RECEIVER), (ELSEWHERE,), (GIVER,))


def _movable(unit: str, native: str, neighbours: tuple[str, ...], density: float = 1.0) -> Movable[str, str]:
    return Movable(unit, 0.01 * density, 100.0, native, neighbours)


def test_flow_aware_looks_at_home_then_neighbours_then_density() -> None:
    expected = [
        _movable(f"{native} {company} {density}", native, company, density)
        for native, company, density in product((RECEIVER, ELSEWHERE, GIVER), COMPANIES, (2.0, 1.0))
    ]
    assert ranked(Strategy.FLOW_AWARE, expected[::-1], GIVER, RECEIVER) == expected


def test_intermediate_knows_only_foreign_and_native() -> None:
    native, home, other = (
        _movable("native", GIVER, (RECEIVER,), 9.0),
        _movable("home", RECEIVER, (RECEIVER,), 1.0),
        _movable("other", ELSEWHERE, (GIVER,), 2.0),
    )
    assert ranked(Strategy.INTERMEDIATE, [native, home, other], GIVER, RECEIVER) == [other, home, native]
    assert ranked(Strategy.ELEMENTARY, [home, other, native], GIVER, RECEIVER) == [native, other, home]


def test_homing_asks_where_the_stream_flows_before_where_neighbours_are() -> None:
    fed = Movable("fed", 0.01, 100.0, GIVER, (GIVER,), (RECEIVER,))
    near = Movable("near", 0.01, 100.0, GIVER, (RECEIVER,))
    home = Movable("home", 0.01, 100.0, RECEIVER, ())
    assert ranked(Strategy.HOMING, [near, fed, home], GIVER, RECEIVER) == [home, fed, near]
    assert ranked(Strategy.FLOW_AWARE, [near, fed, home], GIVER, RECEIVER) == [home, near, fed]


def test_what_has_no_state_is_not_divided_by_nothing() -> None:
    assert Movable("a", 0.2, 0.0, GIVER).density == 0.2


def test_an_operator_that_many_share_counts_in_part() -> None:
    assert load_of([(0.3, 3), (0.2, 1)]) == pytest.approx(0.3)


def test_too_much_is_given_only_if_loads_come_nearer() -> None:
    asked = Request(RECEIVER, GIVER, 0.1, 0.4)
    one = Movable("one", 0.15, 1.0, GIVER)
    assert select(Strategy.FLOW_AWARE, [one], asked, load=0.6, may_give=1.0) == [one]
    assert select(Strategy.FLOW_AWARE, [Movable("one", 0.25, 1.0, GIVER)], asked, load=0.6, may_give=1.0) == []


def test_nobody_gives_more_than_half_of_what_it_had() -> None:
    asked = Request(RECEIVER, GIVER, 0.9, 0.0)
    many = [Movable(str(number), 0.1, 1.0, GIVER) for number in range(9)]
    assert len(select(Strategy.FLOW_AWARE, many, asked, load=0.9, may_give=allowance(0.9))) == 4
    assert allowance(0.9, given=0.4) == pytest.approx(0.05)
    assert allowance(0.9, given=0.5) == 0.0


def test_who_calls_home_gets_its_own_only() -> None:
    asked = Request(RECEIVER, GIVER, 0.5, 0.1, only_home=True)
    own, other = Movable("own", 0.1, 9.0, RECEIVER), Movable("other", 0.1, 1.0, ELSEWHERE)
    assert select(Strategy.HOMING, [other, own], asked, load=0.9, may_give=0.4) == [own]


@given(
    st.lists(
        st.tuples(st.floats(0, 0.3), st.floats(0, 1e6), st.sampled_from([GIVER, RECEIVER, ELSEWHERE])), max_size=20
    ),
    st.sampled_from(Strategy),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
)
def test_loads_come_nearer_and_limits_hold(
    drawn: list[tuple[float, float, str]], strategy: Strategy, receiver_load: float, more: float
) -> None:
    movables = [Movable(number, load, state, native) for number, (load, state, native) in enumerate(drawn)]
    load = sum(each.load for each in movables) + more
    asked = Request(RECEIVER, GIVER, max(load - receiver_load, 0.0) / 2.0, receiver_load)
    taken = select(strategy, movables, asked, load, allowance(load))
    given_away = sum(each.load for each in taken)
    assert len({each.unit for each in taken}) == len(taken)
    assert given_away <= load / 2.0 + 1e-12
    assert abs((load - given_away) - (receiver_load + given_away)) <= abs(load - receiver_load) + 1e-12
