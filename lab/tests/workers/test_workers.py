"""Two workers with a Spark each: fragments move at random, workers are killed, and answers are the oracle's."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lab.workers.provider import Provider
from tests.oracle import Values
from tests.oracle_script import Script
from tests.runtime.trades_and_quotes import STREAMS, Rows, arrivals, stream_statement, write_files
from tests.runtime.workload_run import values_of
from tests.support.peers import difference
from weft.algebra import Relation
from weft.loom import Loom

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CYCLES = 10

#: Every kind of state that an operator can have.
QUERIES = {
    "windowed": "SELECT sym, SUM(qty) AS total, AVG(price) AS mean FROM trades [ROWS 20 SLIDE 10] GROUP BY sym",
    "joined": (
        "SELECT t.n, t.sym, q.bid FROM trades t [ROWS 10], quotes q [ROWS 10] WHERE t.sym = q.sym AND q.bid < t.price"
    ),
    "running": "SELECT qty, COUNT(*) AS c, MAX(price) AS top FROM trades GROUP BY qty",
    "news": "SELECT DISTINCT sym, qty FROM trades RETAIN 15",
    "derived": "SELECT MAX(total) AS most FROM windowed [ROWS 20 SLIDE 20]",
    "spelt": "SELECT COUNT(DISTINCT sym) AS syms FROM quotes [ROWS 60 SLIDE 15]",
}

_CHEAP = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def _script(sources: Path | None, out: Path | None) -> str:
    def into(name: str) -> str:
        return f" INTO json OPTIONS (path '{out / name}')" if out else ""

    streams = [stream_statement(name, sources) for name in STREAMS]
    return ";".join(
        [*streams, *(f"CREATE CONTINUOUS QUERY {name}{into(name)} AS {text}" for name, text in QUERIES.items())]
    )


def _oracle(cycles: Sequence[Rows]) -> tuple[dict[str, Relation], dict[str, list[list[Values]]]]:
    script = Script(_script(None, None))
    answered = [script.cycle(**rows) for rows in cycles]
    relations = {name: script.query(name).relation for name in QUERIES}
    return relations, {name: [answers.get(name, []) for answers in answered] for name in QUERIES}


def _until(provider: Provider, done: Callable[[dict[str, int]], bool], meanwhile: Callable[[], None]) -> None:
    """Until the newest commits of all fragments are as wanted; workers that died are replaced on the way."""
    deadline = time.monotonic() + 600
    while not done(provider.committed()):
        assert time.monotonic() < deadline, f"{provider.committed()}\n{_logs(provider)}"
        meanwhile()
        provider.supervise()
        time.sleep(0.3)


def _logs(provider: Provider) -> str:
    return "\n".join(f"{file.name}:\n{file.read_text()[-3000:]}" for file in provider.directory.glob("*.log"))


def _check(provider: Provider, out: Path, cycles: Sequence[Rows]) -> None:
    """Every answer is there once: those kept by the looms, and those that went to the sinks, cycle by cycle."""
    relations, expected = _oracle(cycles)
    for name, relation in relations.items():
        everything = [answer for answers in expected[name] for answer in answers]
        assert everything, f"{name} has no answers to lose"
        assert difference(relation, everything, values_of(provider.results(name), relation)) == "", name
        written = {int(file.stem): len(file.read_text().splitlines()) for file in (out / name).glob("*.json")}
        assert written == {cycle: len(each) for cycle, each in enumerate(expected[name]) if each}, name


def test_answers_are_the_oracles_while_fragments_move_and_workers_die(tmp_path: Path) -> None:
    cycles = arrivals(CYCLES, seed=11)
    write_files(tmp_path / "sources", cycles)
    provider = Provider.create(
        tmp_path / "provider",
        _script(tmp_path / "sources", tmp_path / "out"),
        ("left", "right"),
        interval="800 milliseconds",
        settings=_CHEAP,
    )
    fragments = list(provider.fixed.fragments)
    assert len(fragments) >= 4
    chance = random.Random(3)
    moved, killed = set(), []

    def disturb() -> None:
        """Now and then a fragment moves; once the worker that gives it dies meanwhile, once the one that gets it."""
        newest = max(provider.committed().values())
        if newest < 1 or newest >= CYCLES - 1 or chance.random() < 0.5:
            return
        fragment = chance.choice(fragments)
        giver = provider.assigned[fragment]
        receiver = "right" if giver == "left" else "left"
        provider.move(fragment, receiver)
        moved.add(fragment)
        if len(killed) < 2 and newest >= 2 + 3 * len(killed):
            time.sleep(chance.uniform(0.0, 0.6))
            killed.append((giver, receiver)[len(killed)])
            provider.kill(killed[-1])

    with provider:
        provider.start()
        _until(provider, lambda newest: min(newest.values()) >= CYCLES - 1, disturb)
    assert len(moved) >= 2
    assert len(killed) == 2
    assert set(provider.committed().values()) == {CYCLES - 1}
    _check(provider, tmp_path / "out", cycles)
    for fragment, queries in provider.fixed.fragments.items():
        with Loom.open(tmp_path / "provider" / "fragments" / fragment) as loom:
            assert {query.name for query in loom.catalog.queries()} == set(queries)


@pytest.mark.prove
def test_load_is_measured_and_moves_to_an_idle_worker(tmp_path: Path) -> None:
    cycles = arrivals(CYCLES, seed=11)
    write_files(tmp_path / "sources", cycles)
    provider = Provider.create(
        tmp_path / "provider", _script(tmp_path / "sources", tmp_path / "out"), ("left", "right"), settings=_CHEAP
    )
    for fragment in provider.fixed.fragments:
        provider.move(fragment, "left")
    with provider:
        provider.start()
        _until(provider, lambda newest: min(newest.values()) >= 2, lambda: None)
        decided = provider.rebalance()
        assert decided
        assert all((each.giver, each.receiver) == ("left", "right") for each in decided)
        assert all(provider.assigned[each.fragment] == "right" for each in decided)
        assert provider.loads()["right"] > 0
        _until(provider, lambda newest: min(newest.values()) >= CYCLES - 1, lambda: None)
    _check(provider, tmp_path / "out", cycles)
