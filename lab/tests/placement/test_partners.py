"""Partnership: symmetric and bounded, in whatever order messages come."""

from __future__ import annotations

import random

import pytest

from lab.placement.partners import (
    Bounds,
    Partners,
    answered,
    ask,
    asked,
    bounds,
    found,
    refreshed,
    should_look_further,
)


def _agree(nodes: int, limits: Bounds, seed: int) -> list[Partners]:
    """All nodes ask until nothing is left to say; messages arrive in random order."""
    order = random.Random(seed)
    known = [Partners() for _ in range(nodes)]
    ranks = [[n for n in order.sample(range(nodes), nodes) if n != node][: nodes // 2] for node in range(nodes)]
    strangers = [[n for n in range(nodes) if n != node and n not in ranks[node]] for node in range(nodes)]
    waiting: list[tuple[str, int, int, bool]] = []

    def go_on(node: int) -> None:
        known[node], questions = ask(known[node], ranks[node], strangers[node], limits)
        waiting.extend(("ask", node, other, True) for other in questions)

    for node in order.sample(range(nodes), nodes):
        go_on(node)
    while waiting:
        kind, sender, target, yes = waiting.pop(order.randrange(len(waiting)))
        if kind == "ask":
            known[target], yes = asked(known[target], sender, limits)
            waiting.append(("answer", target, sender, yes))
        else:
            known[target] = answered(known[target], sender, yes)
            go_on(target)
    return known


@pytest.mark.parametrize("most_asked", [1, 2, 4, 5, 8])
@pytest.mark.parametrize("seed", range(20))
def test_partnership_is_symmetric_and_bounded(most_asked: int, seed: int) -> None:
    limits = bounds(most_asked)
    known = _agree(16, limits, seed)
    for node, partners in enumerate(known):
        assert not partners.waiting
        assert not partners.asked & partners.asked_by
        assert node not in partners.all
        assert len(partners.asked_by) <= limits.most_asked_by
        assert len(partners.asked) <= limits.most_asked
        assert all(node in known[other].all for other in partners.all)


def test_half_as_many_may_come_by_themselves() -> None:
    assert (bounds(5).most_asked_by, bounds(4).most_asked_by, bounds(0).most_asked_by) == (3, 2, 0)


def test_a_neighbour_that_asked_counts_as_asked_and_leaves_room() -> None:
    partners, questions = ask(Partners(asked_by=frozenset({7})), [7, 8], [], Bounds(2, 1))
    assert (partners.asked, partners.asked_by, questions) == ({7}, set(), (8,))


def test_who_refused_is_not_asked_again_until_refusals_are_forgotten() -> None:
    partners = answered(Partners(waiting=frozenset({3})), 3, yes=False)
    assert ask(partners, [3], [], Bounds())[1] == ()
    assert ask(refreshed(partners), [3], [], Bounds())[1] == (3,)


def test_the_full_say_no() -> None:
    partners, yes = asked(Partners(asked_by=frozenset({1, 2, 3})), 4, Bounds())
    assert not yes
    assert partners.asked_by == {1, 2, 3}
    assert asked(partners, 2, Bounds())[1]


def test_looking_further_when_all_are_overloaded() -> None:
    assert should_look_further(0.95, [0.92, 0.99], 0.9)
    assert not should_look_further(0.95, [0.92, 0.5], 0.9)
    assert not should_look_further(0.5, [], 0.9)
    assert found(Partners(asked=frozenset(range(5))), 9).all == (0, 1, 2, 3, 4, 9)
