"""The proof: real processes, a real broker, a migration, kill -9; every answer equals the oracle's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.federation.live.real_federation import RealFederation
from tests.federation.live.small_federation import PROVIDERS
from tests.federation.live.test_small_federation import rows

_WINDOWS = ("ROWS 20 SLIDE 10", "ROWS 10 SLIDE 10", "ROWS 30 SLIDE 5", "ROWS 12 SLIDE 6")
#: Batches that each stream may go on for, at most, until there is enough to compare.
_MOST_ROUNDS = 10


def drawn_query(number: int, draw: random.Random) -> str:
    """A query of one of the kinds that there are, with constants of its own."""
    window, symbol, price = draw.choice(_WINDOWS), draw.choice("ABC"), draw.randrange(1, 8)
    kinds = (
        f"SELECT sym, SUM(qty) AS total FROM trades [{window}] WHERE price > {price} GROUP BY sym",
        f"SELECT sym, MAX(bid) AS top, MIN(bid) AS least FROM quotes [{window}] WHERE bid >= {price} GROUP BY sym",
        f"SELECT n, price FROM trades WHERE sym = '{symbol}' AND price > {price}",
        f"SELECT COUNT(*) AS c, AVG(qty) AS mean FROM trades [{window}] WHERE sym IN ('{symbol}', 'C')",
        f"SELECT t.n, t.sym, q.bid FROM trades t [ROWS {4 + price}], quotes q [ROWS 8] "
        f"WHERE t.sym = q.sym AND q.bid < t.price AND t.price > {price}",
        f"SELECT sym, COUNT(*) AS c FROM quotes WHERE bid < {price} GROUP BY sym",
        f"SELECT COUNT(*) AS c FROM trades [{window}] WHERE qty > {price} EMIT EMPTY",
        f"SELECT DISTINCT sym, qty FROM trades WHERE price = {price} RETAIN 15",
        f"SELECT sym, COUNT(DISTINCT bid) AS c FROM quotes [{window}] WHERE sym <> '{symbol}' GROUP BY sym",
        f"SELECT n, bid FROM quotes WHERE bid BETWEEN {price} AND {price + 2}",
    )
    return f"CREATE CONTINUOUS QUERY q{number} AS {kinds[number % len(kinds)]}"


def proof(directory: Path, queries: int, batches: int, seed: int) -> None:
    """Queries are created at random between batches, a round spreads them, two are moved by hand.

    The coordinator is killed, and one provider, which comes back later.
    """
    draw = random.Random(seed)
    todo = [
        *(("create", number) for number in range(queries)),
        *(("batch", stream) for _ in range(batches) for stream in ("trades", "quotes")),
    ]
    # A query that could be drawn last would have no answers: some batches stay for the end.
    head, tail = todo[: queries + batches], todo[queries + batches :]
    draw.shuffle(head)
    clock = {"trades": 0, "quotes": 0}
    with RealFederation(directory) as federation:

        def carry_out(what: str, which: int | str) -> None:
            if what == "create":
                assert isinstance(which, int)
                federation.execute(draw.choice(PROVIDERS), drawn_query(which, draw))
            else:
                assert isinstance(which, str)
                clock[which] += draw.randrange(2, 9)
                federation.publish(which, rows(which, clock[which], draw))

        for step in head:
            carry_out(*step)
        federation.wait(federation.published, "all batches are in the log")
        # Routing has an eye for data and none for load: a round spreads the queries.
        federation.ask("plan", apply=True)
        assert len({each["provider"] for each in federation.status()["queries"]}) > 1
        for number in (0, queries // 2):
            elsewhere = [each for each in PROVIDERS if each != federation.provider_of(f"q{number}")]
            federation.ask("move", query=f"q{number}", target=draw.choice(elsewhere))
        federation.restart_coordinator()
        for step in tail[: batches // 3]:
            carry_out(*step)
        victim = federation.provider_of("q1")
        federation.kill(victim)
        federation.wait(lambda: victim not in {each["name"] for each in federation.status()["sites"]}, "it is missed")
        assert federation.provider_of("q1") != victim
        for step in tail[batches // 3 : 2 * batches // 3]:
            carry_out(*step)
        federation.start(victim)
        for step in tail[2 * batches // 3 :]:
            carry_out(*step)

        def answered() -> int:
            """How much has been answered, when all that there is to answer has been."""
            federation.wait(federation.published, "all batches are in the log")
            federation.wait(lambda: not federation.differences(), "every answer is there, and is the oracle's")
            return sum(len(each) for each in federation.delivered().values())

        # How many windows have closed depends on where in the log queries came: the streams go on until enough have.
        for _ in range(_MOST_ROUNDS):
            if answered() > queries:
                break
            for stream in clock:
                carry_out("batch", stream)
        assert answered() > queries
        ask_on_the_command_line(federation)


def ask_on_the_command_line(federation: RealFederation) -> None:
    """The commands that a user has, at a site's directory."""
    site = ("--project", str(federation.directory / "n1"))
    script = federation.directory / "more.sql"
    script.write_text("CREATE CONTINUOUS QUERY more INTO subscribers AS SELECT n, qty FROM trades;")
    assert "more goes to" in federation.command("register", str(script), *site)
    federation.publish("trades", [(500, "A", 1, 77)])
    federation.wait(federation.published, "one more batch is in the log")
    federation.wait(lambda: not federation.differences(), "its answer is there")
    assert "qty=77" in federation.command("tail", "more", "--last", "1", "--count", "1", *site)
    status = federation.command("federation", "status", *site)
    assert all(name in status for name in (*PROVIDERS, "feed", "tape", "more"))
    assert "more runs at" in federation.command("federation", "explain", "more", *site)
    assert "queries move" in federation.command("federation", "plan", *site)
    target = next(each for each in PROVIDERS if each != federation.provider_of("more"))
    assert f"to {target}" in federation.command("federation", "move", "more", target, *site)
    assert federation.provider_of("more") == target
    federation.command("federation", "picture", str(federation.directory / "picture.svg"), *site)


@pytest.mark.spark
def test_three_providers_with_a_migration_and_a_death(tmp_path: Path) -> None:
    proof(tmp_path, queries=10, batches=5, seed=1)


@pytest.mark.prove
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_sixty_queries_over_two_sources(tmp_path: Path) -> None:
    proof(tmp_path, queries=60, batches=12, seed=2)
