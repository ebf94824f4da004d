"""Plans cut into fragments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lab.placement.fragments import (
    Fragment,
    Operator,
    fragments,
    neighbouring_factors,
    neighbours,
)


def test_four_streams_and_three_joins() -> None:
    def filtered(stream: str, rate: float) -> Operator:
        return Operator(f"σ {stream}", rate, (Operator(stream, rate * 2),))

    left = Operator("⋈12", 50, (filtered("S1", 80), filtered("S2", 30)))
    right = Operator("⋈34", 60, (filtered("S3", 20), filtered("S4", 90)))
    cut = fragments(Operator("γ", 5, (Operator("⋈", 40, (left, right)),)))
    assert cut == (
        Fragment(("S1", "σ S1", "⋈12"), downstream=3, enters=3),
        Fragment(("S2", "σ S2"), downstream=0, enters=2),
        Fragment(("S3", "σ S3"), downstream=3, enters=2),
        Fragment(("S4", "σ S4", "⋈34", "⋈", "γ")),
    )
    assert neighbours(cut)[0] == (3, 1)
    assert [fragment.stream for fragment in cut] == ["S1", "S2", "S3", "S4"]


def test_of_equal_sides_the_left_one_takes_the_join() -> None:
    cut = fragments(Operator("⋈", 1, (Operator("a", 7), Operator("b", 7))))
    assert cut == (Fragment(("a", "⋈")), Fragment(("b",), downstream=0, enters=1))


@st.composite
def plans(draw: st.DrawFn, below: int = 4) -> Operator:
    names = iter(range(10_000))

    def grow(depth: int) -> Operator:
        kind = draw(st.integers(0, 2)) if depth else 0
        rate = draw(st.floats(0.1, 100))
        inputs = tuple(grow(depth - 1) for _ in range(kind))
        return Operator(next(names), rate, inputs)

    return grow(below)


def _names(plan: Operator) -> list[object]:
    return [plan.name, *(name for each in plan.inputs for name in _names(each))]


def _streams(plan: Operator) -> list[object]:
    return [name for each in plan.inputs for name in _streams(each)] if plan.inputs else [plan.name]


@given(plans())
def test_every_operator_is_in_one_fragment_and_every_stream_has_one(plan: Operator) -> None:
    cut = fragments(plan)
    assert sorted(name for fragment in cut for name in fragment.operators) == sorted(_names(plan))
    assert [fragment.stream for fragment in cut] == _streams(plan)


@given(plans())
def test_rows_of_every_fragment_come_to_the_one_that_answers(plan: Operator) -> None:
    cut = fragments(plan)
    for first in cut:
        at, passed = first, 0
        while at.downstream is not None:
            target = cut[at.downstream]
            assert 0 < at.enters < len(target.operators)
            at, passed = target, passed + 1
            assert passed < len(cut)
        assert at.operators[-1] == plan.name


def test_neighbouring_factors_count_pairs_in_both_directions() -> None:
    factors = neighbouring_factors([(0, 1), (1, 0), (1, 2), (2, 2)], 3)
    assert [dict(each) for each in factors] == [{1: 2}, {0: 2, 2: 1}, {1: 1}]
