"""Guirguis, Figures 6, 12 to 14 and 16 to 18: when sharing pays, and what weaving gains.

Slides are drawn from 1 to 100,000 seconds with Zipf's law (θ = 0.6), overlap factors evenly from 1 to 50 unless another
limit is named; a tick is a second. Costs are operations per second, Σ E·Ω with the overlap factor as Ω.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.figures.weaving.rivals import Rival, insert_then_weave_rival, local_search_rival, random_rival
from lab.figures.weaving.woven import Woven, mean, woven
from lab.weaving.workloads import any_slides

#: Rates of Figures 12 and 13, and the one of which the text says that it looks the same.
RATES = (50, 300, 10_000)


@dataclass(frozen=True, slots=True)
class Scope:
    """How much of the figures to compute."""

    sizes: tuple[int, ...]
    seeds: int
    crossover_seeds: int
    largest: int | None
    """The number of queries of Figure 17, which weaves for minutes; None leaves the figure out."""
    overlaps: tuple[int, ...]
    skewed_sizes: tuple[int, ...]
    skews: tuple[float, ...]
    most_for_local_search: int
    """Local Search weighs every move of every query: minutes for more queries than this."""


FULL = Scope(
    (50, 100, 250, 500, 1_000),
    3,
    20,
    2_000,
    (50, 250, 2_000),
    (100, 250),
    (0, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.6, 3.3),
    250,
)
QUICK = Scope((50, 100, 250), 1, 3, None, (), (100,), (0, 0.6, 1.2, 3.3), 50)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Figure 6a: the rate from which one tree for all is cheaper than a tree for each."""

    rate: float
    rate_with_every_second: float
    """The same for the sets in which some query slides by a second, so that every tick is an edge: E = 1."""
    sets_with_every_second: str
    saving_at_50: float


@dataclass(frozen=True, slots=True)
class Contest:
    """All optimizers on the same queries, means over the seeds: costs by name."""

    queries: int
    rate: float
    costs: dict[str, float]
    trees: float
    bound: float
    local_search_effort: float | None
    """The time of Local Search as a multiple of Weave Share's."""


@dataclass(frozen=True, slots=True)
class Gain:
    """1 − Weave Share/Shared at some point of a figure."""

    across: float
    rate: float
    gain: float
    trees: float


@dataclass(frozen=True, slots=True)
class Sharing:
    crossing: Crossing
    contests: dict[float, list[Contest]]
    wide_overlap: Contest
    """Figure 6b: overlap factors up to 150, at 50 rows per second."""
    by_rate: list[Gain]
    many_queries: list[Gain]
    """At 10,000 rows per second, by the number of queries."""
    by_overlap: list[Gain]
    by_skew: dict[int, list[Gain]]


def measure(quick: bool) -> Sharing:
    scope = QUICK if quick else FULL
    typical = [woven(any_slides(250, 0), seed) for seed in range(scope.crossover_seeds)]
    contests = {rate: [_contest(size, rate, scope) for size in scope.sizes] for rate in RATES}
    wide = _contest(scope.sizes[-1], 50, scope, most_overlap=150, rivals=False)
    rates = (10, 25, 50, 100, 300, 1_000, 2_000, 3_000, 4_000, 6_000, 10_000)
    many = (*scope.sizes, scope.largest) if scope.largest else scope.sizes
    return Sharing(
        _crossing(typical),
        contests,
        wide,
        [_gain(rate, rate, typical) for rate in rates],
        [_gain(size, 10_000, _drawn(size, 50, 1 if size == scope.largest else scope.seeds)) for size in many],
        [
            _gain(most, rate, [woven(any_slides(scope.largest or 0, 0, most_overlap=most), 0)])
            for most in scope.overlaps
            for rate in (100, 10_000, 1_000_000)
        ],
        {
            size: [_skewed(size, skew, scope.seeds) for skew in scope.skews]
            for size in scope.skewed_sizes
        },
    )  # fmt: skip


def _drawn(size: int, most_overlap: int, seeds: int) -> list[Woven]:
    return [woven(any_slides(size, 0, most_overlap=most_overlap), seed) for seed in range(seeds)]


def _skewed(size: int, skew: float, seeds: int) -> Gain:
    return _gain(skew, 100, [woven(any_slides(size, 0, most_overlap=10, skew=skew), seed) for seed in range(seeds)])


def _gain(across: float, rate: float, sets: list[Woven]) -> Gain:
    cuts = [each.woven(rate) for each in sets]
    shared = mean([each.shared(rate) for each in sets])
    return Gain(across, rate, 1 - mean([cut.cost for cut in cuts]) / shared, mean([cut.trees for cut in cuts]))


def _crossing(sets: list[Woven]) -> Crossing:
    dense = [each for each in sets if each.union_rate == 1]
    saving = 1 - mean([each.shared(50) for each in sets]) / mean([each.no_share(50) for each in sets])
    return Crossing(_crossing_rate(sets), _crossing_rate(dense or sets), f"{len(dense)} of {len(sets)} sets", saving)


def _crossing_rate(sets: list[Woven]) -> float:
    """n·λ + A = λ + B where λ = (B − A)/(n − 1): both costs are straight lines in the rate."""
    apart = mean([each.no_share(0) for each in sets])
    together = mean([each.shared(0) for each in sets])
    return (together - apart) / (len(sets[0].windows) - 1)


def _contest(size: int, rate: float, scope: Scope, *, most_overlap: int = 50, rivals: bool = True) -> Contest:
    sets = _drawn(size, most_overlap, scope.seeds)
    costs = {
        "No Share": mean([each.no_share(rate) for each in sets]),
        "Shared": mean([each.shared(rate) for each in sets]),
    }
    effort = None
    if rivals:
        costs["Random"] = mean([random_rival(each, rate, seed).cost for seed, each in enumerate(sets)])
        if size <= scope.most_for_local_search:
            found = [local_search_rival(each, rate) for each in sets]
            costs["Local Search"] = mean([each.cost for each in found])
            effort = _effort(found, sets)
        costs["Insert-then-Weave"] = mean([insert_then_weave_rival(each, rate).cost for each in sets])
    cuts = [each.woven(rate) for each in sets]
    costs["Weave Share"] = mean([cut.cost for cut in cuts])
    bound = mean([each.bound(rate) for each in sets])
    return Contest(size, rate, costs, mean([cut.trees for cut in cuts]), bound, effort)


def _effort(rivals: list[Rival], sets: list[Woven]) -> float:
    return mean([rival.seconds for rival in rivals]) / mean([each.seconds for each in sets])
