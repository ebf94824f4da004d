"""Joins chosen anew: when what is measured says so, for long enough, not too often, and never with other rows."""

from __future__ import annotations

import doctest
import random
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from lab.join_sharing import WithoutJoinSharing
from tests.optimizer.network.given import joins, logs_of, register, select, shape
from tests.optimizer.network.test_random_networks import a_select, check, some_rows
from weft.algebra import Select
from weft.optimizer.network import redeciding
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.redeciding import Patience, Redecided, Redeciding
from weft.optimizer.network.sizes import MeasuredSizes, SizeKey, SizeKind
from weft.optimizer.network.wanted import wanted
from weft.plan.log_ids import LogId, LogKind

CHAIN = """SELECT a.a AS x FROM s [RANGE UNBOUNDED] a, t [RANGE UNBOUNDED] b, u [RANGE UNBOUNDED] c
    WHERE a.k = b.k AND b.a = c.a"""
FIRST_TWO, LAST_TWO = "(T1 x T2) x T3", "T1 x (T2 x T3)"
#: Hardly any rows of s and t meet, and half of those of t and u; and the other way round.
OLD_FIRST, NEW_FIRST = (1e-5, 0.5), (0.5, 1e-5)


class Watched:
    """A planner whose statistics are told, cycle by cycle."""

    def __init__(self, patience: Patience | None = None, make: type[Planner] = Planner) -> None:
        self.observed = MeasuredSizes()
        self.planner = make(self.observed)
        self.redeciding = Redeciding(self.planner, self.observed, patience or Patience())
        self.cycle = 0

    def rows(self, **rows: int) -> None:
        for stream, count in rows.items():
            known = SizeKey(SizeKind.ROWS, (LogId(LogKind.STREAM, stream),))
            # As after many cycles in which it was so.
            for _ in range(60):
                self.observed.see(known, count)

    def meeting(self, share_of_first: float, share_of_last: float) -> None:
        """A thousand rows in each stream of the chain, and the shares of pairs that meet."""
        self.rows(s=1_000, t=1_000, u=1_000)
        self.share("T1.k - T2.k = 0", share_of_first, "s", "t")
        self.share("T1.a - T2.a = 0", share_of_last, "t", "u")

    def share(self, condition: str, share: float, *streams: str) -> None:
        known = SizeKey(SizeKind.SHARE, tuple(LogId(LogKind.STREAM, each) for each in streams), condition)
        for _ in range(60):
            self.observed.see(known, share * 10_000_000, 10_000_000)

    def register(self, place: str, text: str) -> None:
        bound = register(self.planner, place, text)
        self.redeciding.watch(place, lambda: wanted(bound, logs_of(bound)))

    def cycles(self, count: int) -> list[Redecided]:
        decided = []
        for _ in range(count):
            decided += self.redeciding.decide(self.cycle)
            self.cycle += 1
        return decided

    def order(self, place: str) -> str:
        return redeciding.order_text(redeciding.order_of(self.planner.nodes, place))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(redeciding).failed == 0


def test_a_new_select_goes_by_what_is_known_at_once(watched: Watched) -> None:
    watched.meeting(*OLD_FIRST)
    watched.register("old", CHAIN)
    assert watched.order("old") == FIRST_TWO
    another = Watched()
    another.meeting(*NEW_FIRST)
    another.register("new", CHAIN)
    assert another.order("new") == LAST_TWO


def test_the_order_follows_the_rows_that_meet_when_they_have_changed_for_good(watched: Watched) -> None:
    watched.meeting(*OLD_FIRST)
    watched.register("q", CHAIN)
    assert watched.cycles(10) == []
    watched.meeting(*NEW_FIRST)
    assert watched.cycles(1) == []
    (decided,) = watched.cycles(1)
    assert watched.order("q") == LAST_TWO
    assert (decided.cycle, decided.places) == (11, ("q",))
    assert (decided.before, decided.after) == (FIRST_TWO, LAST_TWO)
    assert decided.cost_before > 2 * decided.cost_after
    measured = {known.of: value for known, value in decided.observed if known.kind is SizeKind.SHARE}
    assert measured == pytest.approx({"T1.k - T2.k = 0": 0.5, "T1.a - T2.a = 0": 1e-5}, rel=0.1)
    assert watched.cycles(100) == []


def test_a_selection_that_comes_to_keep_most_rows_becomes_part_of_the_join(watched: Watched) -> None:
    text = "SELECT x.a AS c FROM s [RANGE UNBOUNDED] x, t [RANGE UNBOUNDED] y WHERE x.k = y.k AND x.a > 3"
    watched.rows(s=10_000, t=10_000)
    watched.share("T1.a >= 4", 0.05, "s")
    watched.register("q", text)
    apart = ["1: stream s | TRUE", "2: stream t | TRUE", "3: 1 | T1.a >= 4", "4: 3 x 2 | T1.k - T2.k = 0"]
    assert shape(watched.planner) == apart
    watched.share("T1.a >= 4", 0.8, "s")
    (decided,) = watched.cycles(10)
    assert decided.before == decided.after == "T1 x T2"
    *logs, join = shape(watched.planner)
    assert len(logs) == 2
    assert join.endswith("| T1.a >= 4 AND T1.k - T2.k = 0")
    watched.share("T1.a >= 4", 0.05, "s")
    assert len(watched.cycles(20)) == 1
    assert any(line.endswith(" | T1.a >= 4") for line in shape(watched.planner))


def test_what_was_supposed_is_decided_anew_as_soon_as_it_is_measured(watched: Watched) -> None:
    """An unknown range is taken to keep a third of the rows, which is too many for a node of its own."""
    watched.register("q", "SELECT x.a AS c FROM s [RANGE 9] x, t [RANGE 9] y WHERE x.a > 3 AND x.a = y.a AND x.k = y.k")
    assert len(shape(watched.planner)) == 3
    assert watched.cycles(1) == []
    watched.rows(s=10_000, t=10_000)
    watched.share("T1.a >= 4", 0.001, "s")
    watched.share("T1.a >= 4", 0.001, "t")
    (decided,) = watched.cycles(1)
    assert decided.cycle == 1
    assert [line.partition("| ")[2] for line in shape(watched.planner)].count("T1.a >= 4") == 2


def test_what_was_confirmed_is_supposed_no_more(watched: Watched) -> None:
    watched.register("q", CHAIN)
    watched.meeting(*OLD_FIRST)
    assert watched.cycles(2) == []
    watched.meeting(*NEW_FIRST)
    assert watched.cycles(1) == []
    assert len(watched.cycles(1)) == 1


#: Of a million pairs of s and t, and of t and u, hardly any meet: what the rest costs is 3,000 rows, in any order.
FEW = (2**-17, 2**-16)


@pytest.mark.parametrize(
    # Twenty times, six times, 2.3 times and 1.6 times as dear as the other order.
    ("share", "waited"),
    [(2**-5, 1), (2**-7, 2), (2**-9, 3), (2**-10, None)],
)
def test_the_clearer_the_case_the_sooner_it_is_decided(share: float, waited: int | None) -> None:
    watched = Watched(Patience(sustained=3))
    watched.meeting(*FEW)
    watched.register("q", CHAIN)
    watched.cycles(1)
    watched.meeting(share, FEW[1])
    decided = [each.cycle for each in watched.cycles(20)]
    assert decided == ([] if waited is None else [1 + waited])


@pytest.mark.parametrize(("share", "cycles"), [(2**-5, 1), (2**-7, 2), (2**-9, 3)])
def test_what_changes_back_before_long_changes_nothing(share: float, cycles: int) -> None:
    watched = Watched(Patience(sustained=3))
    watched.meeting(*FEW)
    watched.register("q", CHAIN)
    watched.cycles(5)
    for _ in range(20):
        watched.meeting(share, FEW[1])
        assert watched.cycles(cycles) == []
        watched.meeting(*FEW)
        assert watched.cycles(2) == []


def test_a_gain_of_less_than_the_factor_changes_nothing(watched: Watched) -> None:
    watched.meeting(0.001, 0.002)
    watched.register("q", CHAIN)
    assert watched.order("q") == FIRST_TWO
    watched.meeting(0.002, 0.001)
    assert watched.cycles(50) == []


def test_who_has_moved_stays_longer_each_time() -> None:
    watched = Watched(Patience(sustained=1, interval=8))
    watched.meeting(*OLD_FIRST)
    watched.register("q", CHAIN)
    decided = []
    for _ in range(200):
        watched.meeting(*(NEW_FIRST if watched.order("q") == FIRST_TWO else OLD_FIRST))
        decided += watched.cycles(1)
    apart = [later.cycle - earlier.cycle for earlier, later in pairwise(decided)]
    assert apart == [8, 16, 32, 64]


def test_data_that_change_now_and_then_are_followed_each_time() -> None:
    watched = Watched(Patience(sustained=1, interval=8))
    watched.meeting(*OLD_FIRST)
    watched.register("q", CHAIN)
    for turn in range(12):
        watched.cycles(20)
        watched.meeting(*(OLD_FIRST if turn % 2 else NEW_FIRST))
        changed_at = watched.cycle
        (decided,) = watched.cycles(2)
        assert decided.cycle == changed_at + 1


def test_selects_that_share_a_join_move_together(watched: Watched) -> None:
    watched.meeting(*OLD_FIRST)
    for number in range(40):
        watched.register(f"q{number:02}", f"{CHAIN} AND a.b > {number}")
    assert joins(watched.planner) == 2
    watched.meeting(*NEW_FIRST)
    (decided,) = watched.cycles(20)
    assert len(decided.places) == 40
    assert {watched.order(place) for place in decided.places} == {LAST_TWO}
    assert joins(watched.planner) == 2


def test_a_cycle_does_so_much_and_no_more() -> None:
    watched = Watched(Patience(looked_at=4, groups=2, sustained=0, selects=3), WithoutJoinSharing)
    watched.meeting(*OLD_FIRST)
    for number in range(12):
        watched.register(f"q{number:02}", CHAIN)
    watched.cycles(3)
    watched.meeting(*NEW_FIRST)
    by_cycle = [len(watched.cycles(1)) for _ in range(12)]
    assert max(by_cycle) == 2
    assert sum(by_cycle) == 12


def test_selects_that_go_are_forgotten(watched: Watched) -> None:
    watched.meeting(*OLD_FIRST)
    for number in range(3):
        watched.register(f"q{number}", CHAIN)
    watched.cycles(2)
    watched.meeting(*NEW_FIRST)
    watched.cycles(1)
    for number in range(3):
        watched.redeciding.forget(f"q{number}")
        watched.planner.deregister(f"q{number}")
    assert watched.cycles(10) == []
    assert not watched.planner.network.nodes


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_chosen_anew_every_select_finds_its_rows(seed: int) -> None:
    pick = random.Random(seed)
    logs, present, observed = some_rows(pick, 5), dict[str, Select](), MeasuredSizes()
    planner = Planner(statistics=observed)

    def forced(cycle: int, places: Sequence[str]) -> Iterable[str]:
        return [place for place in places if pick.random() < 0.4]

    redeciding = Redeciding(planner, observed, Patience(sustained=0, interval=1), forced)
    for step in range(12):
        bound = select(a_select(pick))
        place = str(step)
        planner.register(place, bound, logs_of(bound))
        present[place] = bound
        redeciding.watch(place, lambda bound=bound: wanted(bound, logs_of(bound)))  # type: ignore[misc]
        for log in logs:
            observed.see(SizeKey(SizeKind.ROWS, (log,)), 1 << pick.randint(0, 20))
        for text in ("T1.k - T2.k = 0", "T1.s = T2.s"):
            for one, other in (("s", "s"), ("s", "t"), ("t", "s"), ("t", "t")):
                known = SizeKey(SizeKind.SHARE, (LogId(LogKind.STREAM, one), LogId(LogKind.STREAM, other)), text)
                observed.derive(known, 1 / (1 << pick.randint(0, 12)))
        redeciding.decide(step)
    check(planner, present, logs)
