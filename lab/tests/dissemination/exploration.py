"""All orders in which messages can arrive: every state that a few nodes can get into, one step at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from lab.dissemination import rules
from lab.dissemination.protocol import Kind, Message, Node, View, is_busy, receive
from lab.dissemination.rules import Move

#: The children of each inner node; the first is the root.
Children = Mapping[int, tuple[int, ...]]
Channels = tuple[tuple[tuple[int, int], tuple[Message, ...]], ...]


@dataclass(frozen=True)
class World:
    """Nodes, messages on their way, how many reorganisations may still be chosen, and whom tokens have reached."""

    nodes: tuple[Node, ...]
    channels: Channels
    budget: int
    reached: frozenset[tuple[int, int]]
    roots: tuple[int, ...]

    def key(self) -> object:
        """The same for states from which the same things can happen."""
        nodes = tuple(
            (
                tuple(sorted((tree, tuple(sorted(children))) for tree, children in node.children.items())),
                node.promise,
                tuple(sorted(node.asking.items(), key=lambda item: item[0])),
                node.tokens,
                node.ready,
            )
            for node in self.nodes
        )
        return nodes, self.channels, self.budget, self.reached


def world(trees: Sequence[Children], budget: int, rounds: int = 1) -> World:
    """Nodes with these trees, each given by the children of its inner nodes, root first; and tokens at the roots."""
    lists = [{number: () for children in tree.values() for number in children} | dict(tree) for tree in trees]
    numbers = range(1 + max(number for tree in lists for number in tree))
    nodes = tuple(
        Node(number, {t: tree[number] for t, tree in enumerate(lists) if number in tree}) for number in numbers
    )
    roots = tuple(next(iter(tree)) for tree in trees)
    channels: dict[tuple[int, int], tuple[Message, ...]] = {}
    for _ in range(rounds):
        for tree, root in enumerate(roots):
            channels[root, root] = (*channels.get((root, root), ()), Message(Kind.TOKEN, tree, root, root))
    return World(nodes, tuple(sorted(channels.items(), key=lambda item: item[0])), budget, frozenset(), roots)


def possible(view: View) -> list[tuple[Move, ...]]:
    """Every reorganisation that a node could choose, by the pictures of the six rules."""
    k, below = view.apex, view.grandchildren
    found = []
    for g, children in below.items():
        for i in children:
            found.append(rules.moves_of(rules.PROMOTION, k, g, i, -1, -1))
            found.append(rules.moves_of(rules.PARENT_CHILD, k, g, i, -1, -1))
        for h in below:
            if h != g:
                found.append(rules.moves_of(rules.DEMOTION, k, g, h, -1, -1))
                for i in children:
                    found.append(rules.moves_of(rules.ADOPTION, k, g, i, h, -1))
                    found.append(rules.moves_of(rules.UNCLE_NEPHEW, k, h, g, i, -1))
    for g, h in combinations(below, 2):
        found += [rules.moves_of(rules.COUSINS, k, g, i, h, j) for i in below[g] for j in below[h]]
    return found


def successors(state: World, waits: Callable[[Node, Message], bool] | None = None) -> Iterator[World]:
    """What can happen next: one message arrives, and a node that must choose makes any choice.

    `waits` says of a message that it stays where it is, and lets those behind it pass.
    """
    for place, messages in state.channels:
        for position, message in enumerate(messages):
            node = state.nodes[message.receiver]
            if waits is not None and waits(node, message):
                continue
            rest = (*messages[:position], *messages[position + 1 :])
            yield from _deliver(state, place, rest, message)
            break


def _deliver(state: World, place: tuple[int, int], rest: tuple[Message, ...], message: Message) -> Iterator[World]:
    scripts: deque[tuple[int, ...]] = deque([()])
    while scripts:
        script = scripts.popleft()
        asked: list[int] = []
        budget = state.budget

        def decide(view: View, script: tuple[int, ...] = script, asked: list[int] = asked) -> tuple[Move, ...]:
            nonlocal budget
            choices: list[tuple[Move, ...]] = [(), *(possible(view) if budget else ())]
            asked.append(len(choices))
            chosen = choices[script[len(asked) - 1]] if len(asked) <= len(script) else ()
            budget -= bool(chosen)
            return chosen

        node, sent = receive(state.nodes[message.receiver], message, decide)
        if len(asked) > len(script):
            scripts.extend((*script, choice) for choice in range(asked[len(script)]))
            continue
        yield _next(state, place, rest, message, node, sent, budget)


def _next(
    state: World,
    place: tuple[int, int],
    rest: tuple[Message, ...],
    message: Message,
    node: Node,
    sent: Sequence[Message],
    budget: int,
) -> World:
    channels = dict(state.channels)
    channels[place] = rest
    for each in sent:
        channels[each.sender, each.receiver] = (*channels.get((each.sender, each.receiver), ()), each)
    nodes = (*state.nodes[: node.number], node, *state.nodes[node.number + 1 :])
    reached = state.reached
    if message.kind is Kind.TOKEN:
        reached |= {(message.tree, node.number)}
    waiting = tuple(sorted(((key, value) for key, value in channels.items() if value), key=lambda item: item[0]))
    return replace(state, nodes=nodes, channels=waiting, budget=budget, reached=reached)


def explore(
    start: World, check: Callable[[World], None], waits: Callable[[Node, Message], bool] | None = None
) -> tuple[int, list[World]]:
    """Goes through all states, each once; says how many, and in which of them nothing can happen any more."""
    seen, waiting, ends = {start.key()}, deque([start]), []
    while waiting:
        state = waiting.popleft()
        check(state)
        ended = True
        for each in successors(state, waits):
            ended = False
            key = each.key()
            if key not in seen:
                seen.add(key)
                waiting.append(each)
        if ended:
            ends.append(state)
    return len(seen), ends


def wander(start: World, check: Callable[[World], None], seed: int, most: int = 5000) -> World:
    """One order of events out of all, to its end."""
    random, state = Random(seed), start
    for _ in range(most):
        check(state)
        following = list(successors(state))
        if not following:
            return state
        state = random.choice(following)
    raise AssertionError(f"after {most} messages there is still no end")


def check_reachable(state: World) -> None:
    """At every instant each tree reaches all its members, and never goes in a circle."""
    for tree, root in enumerate(state.roots):
        members = {node.number for node in state.nodes if tree in node.children}
        below = {number: state.nodes[number].children[tree] for number in members}
        assert _descendants(below, root, ()) == members, f"tree {tree} lost somebody"


def _descendants(below: Mapping[int, Sequence[int]], node: int, above: tuple[int, ...]) -> set[int]:
    assert node not in above, "a circle"
    found = {node}
    for child in below[node]:
        found |= _descendants(below, child, (*above, node))
    return found


def check_end(state: World) -> None:
    """In the end nobody waits, every node has one parent, and a token has been everywhere."""
    assert not state.channels
    assert all(node.is_idle for node in state.nodes), "somebody waits for ever"
    for tree, root in enumerate(state.roots):
        members = {node.number for node in state.nodes if tree in node.children}
        children = [child for number in members for child in state.nodes[number].children[tree]]
        assert sorted(children) == sorted(members - {root}), f"tree {tree} is none"
        assert {(tree, number) for number in members} <= state.reached, "a token was lost"


def keeps_questions_for_later(node: Node, message: Message) -> bool:
    """The protocol as it was published: a busy node does not refuse, it answers when it is free."""
    return message.kind is Kind.HOLD and is_busy(node, message.sender)
