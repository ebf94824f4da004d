from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations, pairwise
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.weaving.inclusion_exclusion import meet, rate_by_inclusion_exclusion
from tests.windows.strategies import edge_sets, edges_by_force, period_of, window_sets
from weft.algebra import Window
from weft.windows.counting import (
    EffortExceededError,
    coprime_bases,
    edge_rate,
    estimated_edge_rate,
    exact_edge_rate,
    uncovered,
)
from weft.windows.slicing import EdgeSet, ResidueClass, edges_between, reduced, shared_edges

# They all divide 2,520, so that brute force is quick.
MODULI = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 18, 20, 21, 24, 28, 30, 35, 36, 40, 42, 45, 60)
EASY = 1_000_000


def of_slides(*slides: int) -> EdgeSet:
    return reduced(ResidueClass(slide, 0) for slide in slides)


def random_slides(number: int, largest: int, seed: int) -> EdgeSet:
    draw = random.Random(seed)
    return of_slides(*(draw.randint(2, largest) for _ in range(number)))


def count_edges(windows: list[Window]) -> int:
    """The number of distinct edges in one composite slide of these windows."""
    edges = edge_rate(shared_edges(windows)) * lcm(*(window.slide for window in windows))
    assert edges.denominator == 1
    return int(edges)


def test_example_3_of_weave_share() -> None:
    """(12, 9) and (10, 6): eight edges in a composite slide of 18."""
    a, b = Window(12, 9), Window(10, 6)
    assert count_edges([a, b]) == 8
    assert edges_between(shared_edges([a, b]), 0, 18).tolist() == [3, 4, 6, 9, 10, 12, 16, 18]
    assert edge_rate(shared_edges([a, b])) == Fraction(4, 9)


def test_example_5_of_weave_share() -> None:
    """s = 5 with g = (2, 3) and s = 3 with g = (0, 3): 6 + 5 edges in 15 ticks, of which 12 and 15 are common."""
    x, y = Window(7, 5), Window(3, 3)
    assert count_edges([x]) * 3 == 6
    assert count_edges([y]) * 5 == 5
    assert count_edges([x, y]) == 9
    assert edges_between(shared_edges([x, y]), 0, 15).tolist() == [2, 3, 5, 6, 7, 9, 10, 12, 15]


def test_windows_of_example_9_of_weave_share() -> None:
    a, b, c = Window(8, 5), Window(5, 4), Window(10, 1)
    assert count_edges([a, b]) == 14
    assert edge_rate(shared_edges([a, b])) == Fraction(7, 10)
    assert edges_between(shared_edges([a, b]), 0, 20).tolist() == [1, 3, 4, 5, 8, 9, 10, 12, 13, 15, 16, 17, 18, 20]
    assert edge_rate(shared_edges([a, b, c])) == 1


def test_edges_of_slides_2_and_4_are_counted() -> None:
    assert rate_by_inclusion_exclusion([ResidueClass(2, 0), ResidueClass(4, 0)]) * 4 == 2


def test_the_example_of_shein_and_chrysanthis() -> None:
    assert count_edges([Window(6, 2), Window(8, 4)]) == 2


def f1_as_printed(slides: list[int]) -> Fraction:
    """Formula 2: LCM · Σ (−1)^(i+1) · G1(n, i), where G1(n, i) is the sum of 1/LCM over all i of the n slides."""
    return lcm(*slides) * sum(
        ((-1) ** (size + 1) * Fraction(1, lcm(*some)))
        for size in range(1, len(slides) + 1)
        for some in combinations(slides, size)
    )


@given(st.lists(st.integers(2, 60), min_size=1, max_size=7, unique=True))
def test_edge_counting_is_inclusion_and_exclusion(slides: list[int]) -> None:
    windows = [Window(3 * slide, slide) for slide in slides]
    assert count_edges(windows) == f1_as_printed(slides)
    assert rate_by_inclusion_exclusion(of_slides(*slides)) * lcm(*slides) == f1_as_printed(slides)


def test_the_printed_formula_misses_the_ends_of_pairs() -> None:
    """Formula 2 knows the starts alone."""
    assert f1_as_printed([5, 4]) == 8
    assert count_edges([Window(8, 5), Window(5, 4)]) == 14


@given(edge_sets(MODULI))
def test_all_exact_methods_agree_with_brute_force(edges: EdgeSet) -> None:
    period = period_of(edges)
    truth = Fraction(len(edges_by_force(edges, 0, period)), period)
    assert rate_by_inclusion_exclusion(edges) == truth
    assert 1 - uncovered(list(edges), EASY) == truth
    assert exact_edge_rate(edges) == truth
    assert edge_rate(reduced(edges)) == truth


@given(window_sets())
def test_edges_of_windows_with_origins(drawn: list[Window]) -> None:
    period = lcm(*(window.slide for window in drawn))
    edges = shared_edges(drawn)
    assert count_edges(drawn) == len(edges_between(edges, 0, period)) == edge_rate(edges) * period


@given(edge_sets(MODULI), st.integers(1, 10**6), st.integers(-(10**9), 10**9))
def test_a_finer_clock_and_another_epoch_change_nothing_but_the_unit(edges: EdgeSet, unit: int, shift: int) -> None:
    moved = frozenset(ResidueClass(m * unit, (a * unit + shift) % (m * unit)) for m, a in edges)
    assert exact_edge_rate(moved) == exact_edge_rate(edges) / unit


@given(edge_sets(MODULI, most=2), edge_sets(MODULI, most=2))
def test_meet_is_intersection(left: EdgeSet, right: EdgeSet) -> None:
    for one in left:
        for other in right:
            period = lcm(one.modulus, other.modulus)
            both = set(range(one.residue, period, one.modulus)) & set(range(other.residue, period, other.modulus))
            common = meet(one, other)
            assert both == (set() if common is None else {common.residue})
            assert common is None or common.modulus == period


@given(edge_sets(MODULI))
def test_reduced_edges_are_the_same_edges_without_superfluous_classes(edges: EdgeSet) -> None:
    few = reduced(edges)
    period = period_of(edges)
    assert few <= edges
    assert edges_by_force(few, 0, period) == edges_by_force(edges, 0, period)
    assert all(meet(one, other) not in {one, other} for one, other in combinations(few, 2))


def test_a_thousand_windows_over_divisors_reduce_to_an_antichain() -> None:
    draw = random.Random(1)
    divisors = [d for d in range(2, 720_721) if 720_720 % d == 0]
    few = reduced(ResidueClass(draw.choice(divisors), 0) for _ in range(1_000))
    assert len(few) < 40


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8))
def test_coprime_bases(numbers: list[int]) -> None:
    bases = coprime_bases(numbers)
    assert all(lcm(one, other) == one * other for one, other in combinations(bases, 2))
    for number in numbers:
        rest = number
        for base in bases:
            while rest % base == 0:
                rest //= base
        assert rest == 1


def test_conditioning_agrees_with_a_bit_set_on_a_long_period() -> None:
    draw = random.Random(2)
    divisors = [d for d in range(10, 720_721) if 720_720 % d == 0]
    windows = [Window(draw.randint(1, 10 * slide), slide) for slide in draw.sample(divisors, 40)]
    edges = shared_edges(windows)
    period = period_of(edges)
    assert 1 - uncovered(list(edges), EASY) == Fraction(len(edges_between(edges, 0, period)), period)


def test_an_lcm_of_172_bits_is_counted_exactly() -> None:
    edges = random_slides(30, 1_000, seed=213)
    assert period_of(edges).bit_length() == 172
    rate = exact_edge_rate(edges)
    assert rate is not None
    assert period_of(edges) % rate.denominator == 0
    assert abs(estimated_edge_rate(edges) / rate - 1) < 1e-4


def test_a_huge_lcm_by_adding_one_class_at_a_time() -> None:
    """E(X ∪ {c}) = E(X) + 1/m − E(X ∩ c), and X ∩ c on the clock that ticks at c alone is again a set of classes."""
    edges = sorted(random_slides(30, 1_000, seed=213))
    before = exact_edge_rate(frozenset(edges[:-1]))
    after = exact_edge_rate(frozenset(edges))
    last = edges[-1].modulus
    on_last = [common.modulus // last for edge_class in edges[:-1] if (common := meet(edge_class, edges[-1]))]
    common_rate = exact_edge_rate(of_slides(*on_last))
    assert before is not None
    assert common_rate is not None
    assert after == before + (1 - common_rate) / last


def test_ten_thousand_windows_are_counted_by_their_slides() -> None:
    """Whatever their number, what is counted are the classes that no other covers: here multiples of 4 and of 5."""
    draw = random.Random(4)
    divisors = [d for d in range(4, 100_001) if 100_000 % d == 0]
    slides = [draw.choice(divisors) for _ in range(10_000)]
    edges = shared_edges(Window(slide * draw.randint(1, 10_000), slide) for slide in slides)
    assert edges == {ResidueClass(4, 0), ResidueClass(5, 0)}
    assert edge_rate(edges) == Fraction(1, 4) + Fraction(1, 5) - Fraction(1, 20)


def test_microseconds_are_counted_in_the_unit_of_the_windows() -> None:
    """Ten thousand dashboards of whole seconds: no method sees the 86,400,000,000 ticks of a day."""
    draw = random.Random(5)
    second = 1_000_000
    windows = [
        Window(draw.randint(1, 10**6) * second, draw.choice([600, 900, 3_600, 7_200, 86_400]) * second)
        for _ in range(10_000)
    ]
    rate = edge_rate(shared_edges(windows))
    assert (rate * 86_400 * second).denominator == 1


def test_estimates_come_close() -> None:
    for seed in range(3):
        edges = shared_edges(
            Window(reach, slide)
            for reach, slide in zip(
                random.Random(seed).choices(range(1, 10_000), k=20),
                random.Random(seed + 10).choices(range(2, 1_000), k=20),
                strict=True,
            )
        )
        rate = exact_edge_rate(edges)
        assert rate is not None
        assert abs(estimated_edge_rate(edges) / rate - 1) < 1e-3


def test_estimates_of_a_union_are_never_below_those_of_a_part() -> None:
    edges = random_slides(40, 5_000, seed=6)
    part = frozenset(sorted(edges)[:10])
    assert estimated_edge_rate(part) <= estimated_edge_rate(edges)


def test_what_is_too_hard_is_estimated() -> None:
    draw = random.Random(7)
    slides = [draw.randint(1_000, 100_000) for _ in range(1_500)]
    edges = shared_edges(Window(draw.randint(1, 20 * slide), slide) for slide in slides)
    assert exact_edge_rate(edges, effort=1_000) is None
    assert edge_rate(edges) == estimated_edge_rate(edges)


def test_conditioning_gives_up_when_its_effort_is_spent() -> None:
    with pytest.raises(EffortExceededError):
        uncovered(sorted(random_slides(100, 100_000, seed=8)), effort=50)


def test_conditioning_does_not_run_out_of_stack() -> None:
    """A chain p₁p₂, p₂p₃, p₃p₄, … never falls apart by itself: it is too deep, not a crash."""
    primes = [p for p in range(2, 8_000) if all(p % q for q in range(2, int(p**0.5) + 1))][:900]
    chain = [ResidueClass(p * q, 0) for p, q in pairwise(primes)]
    assert exact_edge_rate(frozenset(chain), effort=10**9) is None
    assert exact_edge_rate(frozenset(chain[:100])) is not None


def test_no_windows_no_edges() -> None:
    assert edge_rate(shared_edges([])) == 0
    assert estimated_edge_rate(frozenset()) == 0
