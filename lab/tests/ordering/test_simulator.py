"""The simulator: whatever way tuples take, the answers are those of a naive join."""

from __future__ import annotations

from random import Random

import pytest

from lab.ordering.join_graph import Join, JoinGraph
from lab.ordering.query import Place, plan
from lab.ordering.setting import Change, Costs, Feed, Machine, Settings
from lab.ordering.simulator import simulate
from lab.ordering.tickets import Lottery
from lab.simulate.events import SECOND
from lab.tests.ordering.graphs import FIGURE_5_4, RUNNING, random_graph, random_tree
from lab.tests.ordering.naive import naive_join
from weft.federation import FederationError


def _feeds(random: Random, graph: JoinGraph, rows: int = 6, values: int = 3, window: bool = False) -> dict[str, Feed]:
    return {
        stream: _feed(random, random.randint(0 if random.random() < 0.05 else 1, rows), values, window)
        for stream in graph.streams
    }


def _feed(random: Random, rows: int, values: int, window: bool) -> Feed:
    columns = {name: [random.randrange(values) for _ in range(rows)] for name in "abcde"}
    if not window:
        return Feed(columns)
    instants = sorted(random.randrange(4 * SECOND) for _ in range(rows))
    return Feed(columns, instants, random.choice([None, SECOND, 2 * SECOND]))


def _settings(random: Random) -> Settings:
    """Queues of one or a few items, costs and lotteries of all kinds, so that items go every way and get stuck."""
    return Settings(
        costs=Costs(*(random.choice([0.0, 0.001, 0.1]) for _ in range(6))),
        lottery=Lottery(window=random.choice([1, 10, 1000]), exploration=random.choice([0.0, 0.3, 0.9])),
        capacity=random.choice([1, 2, 100]),
        threshold=random.choice([1, 3]),
        sweep=random.choice([0.1, 1.0]),
    )


def _machines(random: Random, names: list[str]) -> dict[str, Machine]:
    return {
        name: Machine(random.choice([0.2, 1.0, 3.0]), random.choice([0.0, 0.001, 0.5]), random.choice([0, 0, 3]))
        for name in names
    }


def _changes(random: Random, names: list[str]) -> list[Change]:
    return [
        Change(random.uniform(0, 5), random.choice(names), random.choice([None, 0.0, 0.2]), random.choice([None, 0, 4]))
        for _ in range(random.randint(0, 3))
    ]


def _agrees(seed: int, graph: JoinGraph, feeds: dict[str, Feed], places: dict[str, Place] | None = None) -> int:
    """Checks one run against the naive join; returns the number of answers."""
    random = Random(f"run {seed}")
    query = plan(graph, places)
    names = sorted({site for node in query.distributed.nodes for site in query.places[node.place].sites})
    run = simulate(
        query,
        feeds,
        _machines(random, names),
        seed,
        _settings(random),
        _changes(random, names),
        keep_answers=True,
    )
    expected = naive_join(graph, feeds)
    assert sorted(run.rows) == expected, f"seed {seed}"
    assert run.answers == len(expected)
    return run.answers


@pytest.mark.parametrize(("graph", "rows"), [(RUNNING, 20), (FIGURE_5_4, 5)], ids=["running example", "figure 5.4"])
def test_the_thesis_s_queries_give_the_answers_of_a_naive_join(graph: JoinGraph, rows: int) -> None:
    answers = [_agrees(seed, graph, _feeds(Random(seed), graph, rows, values=2)) for seed in range(40)]
    assert sum(answers) > 200


def _random_query(seed: int) -> int:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 6), random.randint(1, 6), random.choice([0, 1, 2]))
    return _agrees(seed, graph, _feeds(random, graph, rows=5, values=2))


def _random_windows(seed: int) -> tuple[int, int]:
    """The answers, and how many items expired on the way."""
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 5), random.randint(1, 5), random.choice([0, 1]))
    feeds = _feeds(random, graph, rows=6, values=2, window=True)
    return _agrees(seed, graph, feeds), simulate(plan(graph), feeds, settings=Settings(sweep=0.1)).expired


def test_random_queries_with_cycles_give_the_answers_of_a_naive_join() -> None:
    assert sum(_random_query(seed) > 0 for seed in range(250)) > 100


def test_windows_let_the_same_tuples_meet_whatever_way_they_take() -> None:
    answers, expired = zip(*map(_random_windows, range(150)), strict=True)
    assert sum(map(bool, answers)) > 50
    assert sum(expired) > 100


@pytest.mark.prove
def test_many_random_queries_with_and_without_windows_give_the_answers_of_a_naive_join() -> None:
    for seed in range(1_000, 3_000):
        _random_query(seed)
        _random_windows(seed)


def test_places_of_several_sites_give_the_same_answers() -> None:
    """R is divided by value, by turns, and joins are divided that neither stream's place evaluates."""
    divided = {
        "R by value": {"1": Place(("1a", "1b", "1c"), "R.a")},
        "R by turns": {"1": Place(("1a", "1b"))},
        "S by turns": {"2": Place(("2a", "2b"))},
        "everything": {"1": Place(("1a", "1b"), "R.a"), "2": Place(("2a", "2b")), "3": Place(("x", "y", "z"), "T.b")},
        "two places on one site": {"1": Place(("x", "y"), "R.a"), "3": Place(("x", "y"))},
    }
    for seed, places in enumerate(divided.values()):
        for again in range(12):
            feeds = _feeds(Random(100 * seed + again), RUNNING, rows=12)
            _agrees(again, RUNNING, feeds, places)
    elsewhere = JoinGraph({"R": "1", "S": "2", "T": "3"}, (Join("R.a", "S.a", "9"), Join("S.b", "T.b", "9")))
    for seed in range(12):
        _agrees(seed, elsewhere, _feeds(Random(seed), elsewhere, rows=10), {"9": Place(("u", "v"), "S.b")})


def test_stored_streams_give_the_same_answers_and_keep_nothing_else() -> None:
    for seed in range(20):
        random = Random(seed)
        feeds = _feeds(random, RUNNING, rows=10)
        stored = {name: Feed(feed.values, stored=name != "S" and bool(len(feed))) for name, feed in feeds.items()}
        assert _agrees(seed, RUNNING, stored) == len(naive_join(RUNNING, feeds))


@pytest.mark.parametrize("seed", [0, 5, 11, 12])
def test_sites_with_room_for_one_tuple_do_not_wait_for_each_other_for_ever(seed: int) -> None:
    """With one queue for each pair of sites, instead of lanes by bits, these come to a standstill."""
    random = Random(seed)
    graph = random_tree(random, random.randint(4, 7), 7)
    feeds = {stream: Feed({name: [random.randrange(2) for _ in range(5)] for name in "ab"}) for stream in graph.streams}
    # A standstill ends the run, with items that nothing moves, and `simulate` complains.
    run = simulate(plan(graph), feeds, seed=seed, settings=Settings(capacity=1, lottery=Lottery(exploration=0.9)))
    assert run.answers == simulate(plan(graph), feeds).answers


def test_a_run_is_repeated_by_its_seed() -> None:
    random = Random(3)
    feeds = {name: _feed(random, 200, 50, False) for name in "RST"}
    settings = Settings(capacity=3, threshold=5)

    def run(seed: int) -> object:
        return simulate(plan(RUNNING), feeds, seed=seed, settings=settings, keep_answers=True)

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_what_cannot_run_is_refused_with_advice() -> None:
    values = {"a": [1], "b": [1]}
    with pytest.raises(FederationError, match="every stream needs a feed"):
        simulate(plan(RUNNING), {"R": Feed(values)})
    together = JoinGraph({"R": "1", "S": "1"}, (Join("R.a", "S.a", "1"),))
    with pytest.raises(FederationError, match="nothing would ever start"):
        simulate(plan(together), {name: Feed(values, stored=True) for name in "RS"})
    moved = JoinGraph({"R": "1", "S": "2"}, (Join("R.a", "S.a", "2"),))
    with pytest.raises(FederationError, match="joined at 2"):
        simulate(plan(moved), {"R": Feed(values, stored=True), "S": Feed(values)})
    with pytest.raises(FederationError, match="name one of 1, 2, 3"):
        simulate(plan(RUNNING), {name: Feed(values) for name in "RST"}, changes=[Change(1, "4", others=1)])
    with pytest.raises(FederationError, match="give the place a key"):
        plan(JoinGraph({"R": "1", "S": "2"}, (Join("R.a", "S.a", "9"),)), {"9": Place(("u", "v"))})
    with pytest.raises(FederationError, match="would not meet"):
        plan(JoinGraph({"R": "1", "S": "1"}, (Join("R.a", "S.a", "1"),)), {"1": Place(("u", "v"))})
    with pytest.raises(FederationError, match="there is no way"):
        plan(RUNNING).fixed(("1", "2"))
    with pytest.raises(FederationError, match="keep a way through all nodes"):
        simulate(plan(RUNNING).fixed(("2", "1")), {name: Feed(values) for name in "RST"})
