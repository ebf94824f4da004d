"""Every answer equals the oracle's over the whole streams, whatever moves or dies; without Spark."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.federation.live.small_federation import PROVIDERS, SmallFederation

QUERIES = (
    "SELECT sym, SUM(qty) AS total FROM trades [ROWS 20 SLIDE 10] WHERE price > 3 GROUP BY sym",
    "SELECT n, sym, price FROM trades WHERE sym = 'A'",
    "SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 10] WHERE sym IN ('A', 'B')",
    "SELECT sym, COUNT(*) AS c FROM trades GROUP BY sym",
    "SELECT t.n, t.sym, q.bid FROM trades t [ROWS 10], quotes q [ROWS 10] WHERE t.sym = q.sym AND q.bid < t.price",
    "SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 5] WHERE qty > 8 EMIT EMPTY",
    "SELECT DISTINCT sym, qty FROM trades RETAIN 15",
    "SELECT sym, MAX(bid) AS top FROM quotes [ROWS 30 SLIDE 10] WHERE bid >= 4 GROUP BY sym",
)


def rows(stream: str, at: int, draw: random.Random) -> list[tuple[object, ...]]:
    """Rows around a clock, some of them late."""
    count = draw.randrange(0, 6)
    clocks = [max(0, at + draw.randrange(-12, 6)) for _ in range(count)]
    if stream == "quotes":
        return [(n, draw.choice("ABC"), draw.randrange(10)) for n in clocks]
    return [(n, draw.choice("ABC"), draw.randrange(10), draw.randrange(10)) for n in clocks]


def test_answers_reach_their_homes_from_wherever_queries_run(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    for number, text in enumerate(QUERIES):
        federation.execute(PROVIDERS[number % 3], f"CREATE CONTINUOUS QUERY q{number} AS {text}")
    draw = random.Random(1)
    for step in range(12):
        federation.publish("trades", rows("trades", 6 * step, draw))
        federation.publish("quotes", rows("quotes", 6 * step, draw))
    federation.settle()
    assert federation.delivered() == federation.expected()
    assert len(federation.expected()) == len(QUERIES)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_life(tmp_path: Path, seed: int) -> None:
    live_at_random(tmp_path, seed)


def test_answers_that_a_crash_left_unsent_are_sent_before_the_engine_is_replaced(tmp_path: Path) -> None:
    """A provider dies between the commit of a batch and sending its answers; the next entry has it take a query in."""
    federation = SmallFederation(tmp_path)
    for number in range(2):
        federation.execute("n1", f"CREATE CONTINUOUS QUERY q{number} AS {QUERIES[1]}")
        federation.ask("move", query=f"q{number}", target=PROVIDERS[number])
    federation.work()
    federation.crash_at["n1"] = "changed"
    federation.publish("trades", [(1, "A", 5, 5)])
    federation.ask("move", query="q1", target="n1")
    federation.settle()
    assert not federation.crash_at
    assert federation.delivered() == federation.expected()
    assert len(federation.delivered()) == 2


@pytest.mark.parametrize("step", ["change", "changed", "cycle", "written", "committed"])
def test_a_provider_that_dies_while_queries_come_and_go_has_those_that_come(tmp_path: Path, step: str) -> None:
    federation = SmallFederation(tmp_path)
    for name, provider in (("one", "n1"), ("two", "n2")):
        text = f"SELECT COUNT(*) AS {name} FROM trades [ROWS 20 SLIDE 10]"
        federation.execute("n3", f"CREATE CONTINUOUS QUERY {name} AS {text}")
        federation.ask("move", query=name, target=provider)
    federation.publish("trades", [(n, "A", 5, 5) for n in range(0, 30, 3)])
    federation.work()
    federation.coordination._carry_out("both at once", {"one": "n2", "two": "n1"})
    federation.crash_at["n1"] = step
    federation.work("n1")
    federation.publish("trades", [(n, "A", 5, 5) for n in range(30, 90, 3)])
    federation.settle()
    assert federation.delivered() == federation.expected()
    assert len(federation.delivered()) == 2


def test_the_only_provider_feeds_its_queries_again_when_it_has_lost_its_engine(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY one AS SELECT n FROM trades")
    federation.ask("move", query="one", target="n1")
    for other in ("n2", "n3"):
        federation.kill(other)
        federation.bury(other)
    federation.publish("trades", [(1, "A", 5, 5)])
    federation.work()
    federation.kill("n1")
    shutil.rmtree(tmp_path / "n1" / "engines")
    federation.start("n1")
    federation.publish("trades", [(2, "A", 5, 6)])
    federation.settle()
    assert federation.delivered() == federation.expected() == {"one@6": [[(1,)], [(2,)]]}


def test_answers_given_too_early_do_not_overtake_those_that_a_dead_provider_owed(tmp_path: Path) -> None:
    """n2 answers behind a hand-over by n3, which dies far behind it: n2 has to answer from there, and all of it."""
    federation = SmallFederation(tmp_path)
    federation.execute("n1", f"CREATE CONTINUOUS QUERY q AS {QUERIES[1]}")
    federation.ask("move", query="q", target="n3")
    federation.work()
    federation.publish("trades", [(1, "A", 5, 5)])
    federation.ask("move", query="q", target="n2")
    federation.publish("trades", [(2, "A", 5, 5)])
    federation.work("n1", "n2")
    federation.homes["n1"].step()
    federation.kill("n3")
    federation.bury("n3")
    # The answer to the second batch waits at the home, given under a hand-over that does not count any more.
    federation.homes["n1"].step()
    federation.settle()
    assert federation.delivered() == federation.expected()
    assert len(federation.delivered()) == 1


def test_a_provider_that_was_given_up_starts_over_when_its_next_batches_are_gone(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", f"CREATE CONTINUOUS QUERY q AS {QUERIES[1]}")
    federation.ask("move", query="q", target="n1")
    federation.work()
    federation.publish("trades", [(1, "A", 5, 5)])
    federation.bury("n1")
    for number in range(8):
        federation.publish("trades", [(20 * number, "A", 5, 5)])
        federation.work("n2", "n3")
    federation.sources["feed"].step()
    federation.lose_rows()
    federation.settle()
    assert "n1" in federation.coordination.placing.present
    assert federation.delivered() == federation.expected()
    federation.ask("move", query="q", target="n1")
    federation.publish("trades", [(200, "A", 5, 5)])
    federation.settle()
    assert federation.delivered() == federation.expected()


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_lives(tmp_path: Path, seed: int) -> None:
    live_at_random(tmp_path, seed)


def live_at_random(tmp_path: Path, seed: int) -> None:
    """Queries come and go, move, providers die and return, messages are lost, everybody is restarted, at random."""
    draw = random.Random(seed)
    federation = SmallFederation(tmp_path, largest=1 << 16)
    created, live = 0, []
    for step in range(60):
        choice = draw.random()
        if choice < 0.25 and created < 16:
            text = QUERIES[created % len(QUERIES)]
            federation.execute(draw.choice(PROVIDERS), f"CREATE CONTINUOUS QUERY q{created} AS {text}")
            live.append(f"q{created}")
            created += 1
        elif choice < 0.3 and live:
            federation.execute("n1", f"DROP CONTINUOUS QUERY {live.pop(draw.randrange(len(live)))}")
        elif choice < 0.4 and live:
            target = draw.choice(federation.coordination.placing.present)
            assert federation.ask("move", query=draw.choice(live), target=target)["ok"]
        elif choice < 0.45 and len(federation.coordination.placing.present) == 3:
            victim = draw.choice(federation.coordination.placing.present)
            if draw.random() < 0.5:
                federation.kill(victim)
            # Otherwise it lives, and only was not heard.
            federation.bury(victim)
        elif choice < 0.5:
            for site in set(PROVIDERS) - set(federation.providers):
                federation.start(site)
        elif choice < 0.54:
            federation.restart_coordinator()
        elif choice < 0.57:
            federation.restart_source(draw.choice(["feed", "tape"]))
        elif choice < 0.6:
            federation.restart_home(draw.choice(PROVIDERS))
        elif choice < 0.66:
            federation.crash_at[draw.choice(PROVIDERS)] = draw.choice(
                ["change", "changed", "cycle", "written", "committed"]
            )
        elif choice < 0.7:
            federation.lose_rows(lambda: draw.random() < 0.5)
        else:
            stream = draw.choice(["trades", "quotes"])
            federation.publish(stream, rows(stream, 4 * step, draw))
        if draw.random() < 0.5 and federation.providers:
            federation.work(draw.choice(list(federation.providers)))
        if draw.random() < 0.2:
            federation.homes[draw.choice(PROVIDERS)].step()
    for site in set(PROVIDERS) - set(federation.providers):
        federation.start(site)
    federation.settle()
    assert federation.delivered() == federation.expected()


def test_owners_keep_batches_as_long_as_a_query_can_need_them(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT SUM(qty) AS s FROM trades [ROWS 20 SLIDE 10]")
    for number in range(12):
        federation.publish("trades", [(10 * number, "A", 5, 5)])
        federation.settle()
    kept = sorted(int(path.stem) for path in (tmp_path / "feed").glob("streams/*/kept/*.parquet"))
    # The clock is 110, the watermark 105: the window from 90 on is open. It was so when owners were last told.
    assert kept[0] >= 7
    assert kept[-1] == 11
    federation.ask("move", query="q", target="n3")
    federation.publish("trades", [(200, "A", 5, 5)])
    federation.settle()
    assert federation.delivered() == federation.expected()
