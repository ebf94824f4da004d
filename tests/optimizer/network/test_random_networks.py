"""Whatever selects there are, in whatever order they come and go: each finds exactly its own rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise

import pytest

from lab.join_sharing import CONFIGURATIONS
from tests.optimizer.network.given import logs_of, select
from tests.optimizer.network.naive import Evaluated, Logs, selected
from weft.algebra import Select
from weft.optimizer.network.planner import Planner
from weft.plan.log_ids import LogId, LogKind
from weft.predicates.operations import columns_of_set

COLUMNS = ("a", "b", "k")


def some_rows(pick: random.Random, count: int) -> Logs:
    def row() -> dict[str, object]:
        whole = {name: None if pick.random() < 0.1 else pick.randint(0, 4) for name in COLUMNS}
        return {
            "clock": pick.randint(0, 9),
            **whole,
            "s": pick.choice((None, "x", "y", "z")),
            "d": Decimal(pick.randint(0, 8)) / 2,
        }

    return {LogId(LogKind.STREAM, name): [row() for _ in range(count)] for name in ("s", "t")}  # type: ignore[return-value]


def a_comparison(pick: random.Random, aliases: list[str]) -> str:
    """A condition on one input, or on two, in one of the ways people write them."""
    one, op = pick.choice(aliases), pick.choice(("<", "<=", "=", ">=", ">", "<>"))
    column, bound = pick.choice(COLUMNS), pick.randint(0, 4)
    if len(aliases) == 1 or pick.random() < 0.45:
        return pick.choice(
            (
                f"{one}.{column} {op} {bound}",
                f"{bound} {op} {one}.{column} * 2 - {pick.randint(0, 2)}",
                f"{one}.{column} IS {pick.choice(('', 'NOT '))}NULL",
                f"{one}.s {op} '{pick.choice('xyz')}'",
                f"{one}.{column} IN ({bound}, {pick.randint(0, 4)})",
                f"{one}.d {op} {bound}.5",
            )
        )
    other = pick.choice([each for each in aliases if each != one])
    return pick.choice(
        (
            f"{one}.k = {other}.k",
            f"{one}.{column} {op} {other}.{pick.choice(COLUMNS)}",
            f"{one}.{column} - {other}.{pick.choice(COLUMNS)} {op} {pick.randint(-1, 1)}",
            f"{one}.s {op} {other}.s",
            f"2 * {one}.d {op} {other}.d",
            f"{one}.clock {op} {other}.clock + {pick.randint(0, 2)}",
        )
    )


def a_condition(pick: random.Random, aliases: list[str]) -> str:
    if pick.random() < 0.15:
        return f"({a_comparison(pick, aliases)} OR {a_comparison(pick, aliases)})"
    return a_comparison(pick, aliases)


def a_select(pick: random.Random) -> str:
    aliases = [f"r{number}" for number in range(pick.choice((1, 1, 2, 2, 2, 3)))]
    window: Callable[[], str] = lambda: ""  # noqa: E731
    if len(aliases) > 1:
        slide = pick.choice(("", "", " SLIDE 3"))
        window = lambda: pick.choice((f"[ROWS {pick.randint(1, 5)}{slide}]", "[RANGE UNBOUNDED]"))  # noqa: E731
        if pick.random() < 0.4:
            window = lambda: "[RANGE UNBOUNDED]"  # noqa: E731
    tables = ", ".join(f"{pick.choice('sst')} {window()} {alias}" for alias in aliases)
    conditions = [a_condition(pick, aliases) for _ in range(pick.randint(1, 4))]
    if len(aliases) > 1 and pick.random() < 0.7:
        conditions += [f"{one}.k = {other}.k" for one, other in pairwise(aliases)]
    shown = ", ".join(f"{alias}.{pick.choice(COLUMNS)} AS c{alias}" for alias in aliases)
    return f"SELECT {shown} FROM {tables} WHERE {' AND '.join(conditions)}"


def check(planner: Planner, present: dict[str, Select], logs: Logs) -> None:
    network = planner.network
    rows = Evaluated(network, logs)
    assert network.results.keys() == present.keys()
    for place, bound in present.items():
        assert rows.of(network.results[place]) == selected(bound, logs_of(bound), logs), place
    for number, node in network.nodes.items():
        children = [each for each in network.nodes.values() if number in each.parents]
        here = [place for place, result in network.results.items() if result.node == number]
        assert children or here, f"nobody needs node {number}"
        assert all(parent in network.nodes for parent in node.parents)
        assert node.legs == tuple(leg for parent in node.parents for leg in network.nodes[parent].legs) or node.is_base
        for child in children:
            first = len(network.nodes[child.parents[0]].legs)
            for position, parent in enumerate(child.parents):
                if parent == number:
                    read = {(int(each.source[1:]) - 1, each.name) for each in columns_of_set(child.predicates)}
                    needed = {(leg - first * position, name) for leg, name in read | set(child.columns)}
                    mine = {each for each in needed if 0 <= each[0] < len(node.legs)}
                    assert mine <= set(node.columns)


def run(seed: int, make: type[Planner], steps: int, rows: int) -> None:
    pick = random.Random(seed)
    logs, planner, present = some_rows(pick, rows), make(), dict[str, Select]()
    texts = [a_select(pick) for _ in range(max(3, steps // 2))]
    for step in range(steps):
        if present and pick.random() < 0.3:
            gone = pick.choice(sorted(present))
            planner.deregister(gone)
            del present[gone]
        else:
            # Some texts come again: under another name a query must find what is there.
            text = pick.choice(texts)
            present[str(step)] = select(text)
            planner.register(str(step), present[str(step)], logs_of(present[str(step)]))
    check(planner, present, logs)
    for place in sorted(present):
        planner.deregister(place)
    assert not planner.network.nodes


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("seed", range(12))
def test_every_select_finds_its_rows(name: str, seed: int) -> None:
    run(seed, CONFIGURATIONS[name], steps=10, rows=5)


@pytest.mark.prove
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("seed", range(1_000, 1_150))
def test_every_select_finds_its_rows_always(name: str, seed: int) -> None:
    run(seed, CONFIGURATIONS[name], steps=30, rows=6)
