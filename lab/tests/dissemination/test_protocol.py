"""Trees reorganised at the same time: every order of messages among a few nodes, and random orders among more."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.dissemination import protocol
from lab.dissemination.protocol import Kind, Message, Node, Promise, View, receive
from lab.dissemination.rules import Move
from lab.tests.dissemination.exploration import (
    Children,
    World,
    check_end,
    check_reachable,
    explore,
    keeps_questions_for_later,
    wander,
    world,
)


def _nothing(_: View) -> tuple[Move, ...]:
    return ()


def _hold_chain(a: int, b: int, c: int) -> list[Children]:
    """Tree 1: a → b, c. Tree 2: c → b."""
    return [{a: (b, c)}, {c: (b,)}]


@pytest.mark.parametrize("numbers", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_hold_chain_ends_in_every_order(numbers: tuple[int, int, int]) -> None:
    states, ends = explore(world(_hold_chain(*numbers), budget=1), check_reachable)
    assert states > 50
    for end in ends:
        check_end(end)


def test_hold_chain_is_deadlocked_if_busy_nodes_keep_questions_for_later() -> None:
    """The published protocol, and that the exploration would have seen its fault."""
    a, b, c = 0, 1, 2
    _, ends = explore(world(_hold_chain(a, b, c), budget=0), check_reachable, keeps_questions_for_later)
    stuck = [end for end in ends if end.channels]
    assert stuck
    for end in stuck:
        assert end.nodes[b].promise == Promise(0, a)
        assert not end.nodes[a].is_idle
        assert not end.nodes[c].is_idle
    # With the numbers the other way round c gives way to a, and still: b waits for c's token, and c for a's.
    _, ends = explore(world(_hold_chain(2, 1, 0), budget=0), check_reachable, keeps_questions_for_later)
    assert any(end.nodes[1].promise == Promise(1, 0) for end in ends if end.channels)


EXAMPLES: dict[str, tuple[list[Children], int, int]] = {
    # trees, how many reorganisations, how many rounds
    "a chain of three, two rounds": ([{0: (1,), 1: (2,)}], 2, 2),
    "four nodes": ([{0: (1, 2), 1: (3,)}], 2, 1),
    "a chain of four, two rounds": ([{0: (1,), 1: (2,), 2: (3,)}], 1, 2),
    "five nodes, deep": ([{0: (1,), 1: (2, 3), 2: (4,)}], 2, 1),
    "two trees of three": ([{0: (1,), 1: (2,)}, {0: (2,), 2: (1,)}], 1, 1),
    "two trees of four, one within the other": ([{0: (1, 2), 1: (3,)}, {0: (3,), 3: (1,)}], 1, 1),
    "five nodes, wide": ([{0: (1, 2), 1: (3,), 2: (4,)}], 2, 1),
    "two trees of four, two reorganisations": ([{0: (1,), 1: (2,), 2: (3,)}, {0: (3,), 3: (2,)}], 2, 1),
    "three trees of three": ([{0: (1,), 1: (2,)}, {0: (2,), 2: (1,)}, {1: (2,)}], 1, 1),
    "two sources": ([{0: (1, 2)}, {3: (1,), 1: (2,)}], 1, 1),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_in_every_order_the_trees_stay_trees_and_nobody_waits_for_ever(name: str) -> None:
    trees, budget, rounds = EXAMPLES[name]
    states, ends = explore(world(trees, budget, rounds), check_reachable)
    assert states > 30
    assert len({str(end.key()) for end in ends}) > 1, "nothing was ever reorganised"
    for end in ends:
        check_end(end)


@pytest.mark.prove
@pytest.mark.parametrize(
    ("trees", "budget", "rounds"),
    [
        ([{0: (1, 2), 1: (3,), 2: (4,)}], 2, 2),
        ([{0: (1, 2), 1: (3,)}, {0: (3,), 3: (1, 2)}], 2, 1),
        ([{0: (1,), 1: (2,), 2: (3,), 3: (4,)}], 3, 2),
        ([{0: (1,), 1: (2,)}, {0: (2,), 2: (1,)}, {1: (2,), 2: (0,)}], 1, 1),
    ],
)
def test_more_orders(trees: list[Children], budget: int, rounds: int) -> None:
    _, ends = explore(world(trees, budget, rounds), check_reachable)
    for end in ends:
        check_end(end)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 9), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32))
def test_in_random_orders_many_trees_stay_trees(nodes: int, trees: int, rounds: int, seed: int) -> None:
    random = Random(seed)
    end = wander(world([_drawn(nodes, random) for _ in range(trees)], 20, rounds), check_reachable, seed)
    check_end(end)


def _drawn(nodes: int, random: Random) -> Children:
    """A random tree over some of the nodes; any of them may be its root, as trees have different sources."""
    order = random.sample(range(nodes), random.randint(2, nodes))
    children: dict[int, tuple[int, ...]] = {order[0]: ()}
    for place, node in enumerate(order[1:], start=1):
        parent = random.choice(order[:place])
        children[parent] = (*children.get(parent, ()), node)
    return children


def _mutant_worlds() -> list[World]:
    return [world(trees, budget, rounds) for trees, budget, rounds in EXAMPLES.values()]


def _is_caught() -> bool:
    for start in _mutant_worlds():
        try:
            for end in explore(start, check_reachable)[1]:
                check_end(end)
        except (AssertionError, KeyError):
            return True
    return False


def test_a_child_that_was_moved_away_must_be_released(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(step: protocol._Step, tree: int, asking: protocol.Asking) -> None:
        step.node = protocol.replace(step.node, asking={t: a for t, a in step.node.asking.items() if t != tree})
        for child in step.node.children[tree]:
            step._send(Kind.TOKEN, tree, child)

    monkeypatch.setattr(protocol._Step, "_finish", finish)
    assert _is_caught()


def test_letting_go_before_the_new_parent_has_taken_a_node_cuts_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    original = protocol._Step._next_step

    def next_step(step: protocol._Step, tree: int) -> None:
        asking = step.node.asking[tree]
        if asking.steps and len(asking.steps) % 2 == 0 and asking.steps[0].kind is Kind.ADOPT:
            first, second, *later = asking.steps
            step._set_asking(tree, protocol.replace(asking, steps=(second, first, *later)))
        original(step, tree)

    monkeypatch.setattr(protocol._Step, "_next_step", next_step)
    assert _is_caught()


def test_a_childless_node_passes_nothing_on_and_is_free() -> None:
    held = Node(4, {0: ()}, promise=Promise(0, 1))
    node, sent = receive(held, Message(Kind.TOKEN, 0, 1, 4), _nothing)
    assert node.is_idle
    assert sent == []


def test_after_a_refusal_the_tree_stays_and_the_token_goes_on() -> None:
    node, sent = receive(Node(1, {0: (2, 3)}), Message(Kind.TOKEN, 0, 0, 1), _nothing)
    assert [(each.kind, each.receiver) for each in sent] == [(Kind.HOLD, 2), (Kind.HOLD, 3)]
    node, sent = receive(node, Message(Kind.ACK, 0, 2, 1, (5,)), _nothing)
    assert sent == []
    node, sent = receive(node, Message(Kind.NACK, 0, 3, 1), lambda _: pytest.fail("there is nothing to decide"))
    assert [(each.kind, each.receiver) for each in sent] == [(Kind.TOKEN, 2), (Kind.TOKEN, 3)]
    assert node.is_idle
