"""A query's plan, cut into one fragment for each stream: what is placed and moved.

A plan is a tree of operators over streams. Fragments are found from the leaves up: each begins with the access to its
stream and takes every unary operator above it, so filters stay with their stream; a join goes to that one of its
two sides whose rows are more, so the fewer rows are those that may have to travel.

    γ((σS1 ⋈ σS2) ⋈ (σS3 ⋈ σS4)), rows per second   80  30  20  90, then 50 and 60

    QF2 = S2 σ ──→ QF1 = S1 σ ⋈ ──→ QF4 = S4 σ ⋈ ⋈ γ ←── QF3 = S3 σ

A query has as many fragments as streams. So wherever fragments go, a query is never on more nodes than it has streams,
and nobody has to keep count of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of a plan and what is below it; `rate` is how many rows per second are expected from it.

    Without inputs it is the access to a stream.
    """

    name: Hashable
    rate: float
    inputs: tuple[Operator, ...] = ()


@dataclass(frozen=True, slots=True)
class Fragment:
    """Operators that stay together, in the order in which rows pass them; the first is the access to the stream.

    Rows that pass all of them enter fragment number `downstream` of the same query at the position `enters` of its
    operators; without one they are the query's answers.
    """

    operators: tuple[Hashable, ...]
    downstream: int | None = None
    enters: int = 0

    @property
    def stream(self) -> Hashable:
        return self.operators[0]


@dataclass(slots=True)
class _Growing:
    """A fragment while operators are still added to it."""

    number: int
    operators: list[Hashable]
    downstream: int | None = None
    enters: int = 0


@dataclass(slots=True)
class _Cut:
    fragments: list[_Growing] = field(default_factory=list)

    def top(self, plan: Operator) -> _Growing:
        """The fragment that gives what the plan gives, once all below it is cut."""
        if not plan.inputs:
            found = _Growing(len(self.fragments), [plan.name])
            self.fragments.append(found)
            return found
        below = [(each.rate, self.top(each)) for each in plan.inputs]
        # The first of equals: max() takes it, and so the cut does not depend on anything but the plan.
        found = max(below, key=lambda pair: pair[0])[1]
        for _, other in below:
            if other is not found:
                other.downstream, other.enters = found.number, len(found.operators)
        found.operators.append(plan.name)
        return found


def fragments(plan: Operator) -> tuple[Fragment, ...]:
    """The fragments of a plan, in the order of its streams from left to right."""
    cut = _Cut()
    cut.top(plan)
    return tuple(Fragment(tuple(each.operators), each.downstream, each.enters) for each in cut.fragments)


def neighbours(query: tuple[Fragment, ...]) -> tuple[tuple[int, ...], ...]:
    """For each fragment of a query those that it gets rows from or gives rows to."""
    found: list[list[int]] = [[] for _ in query]
    for number, fragment in enumerate(query):
        if fragment.downstream is not None:
            found[number].append(fragment.downstream)
            found[fragment.downstream].append(number)
    return tuple(tuple(each) for each in found)


def neighbouring_factors(pairs: Iterable[tuple[int, int]], nodes: int) -> tuple[Counter[int], ...]:
    """For each node how many pairs of neighbouring fragments it shares with each other one.

    `pairs` are the nodes at which two neighbouring fragments are native, those that their streams come to.
    """
    found: tuple[Counter[int], ...] = tuple(Counter() for _ in range(nodes))
    for one, other in pairs:
        if one != other:
            found[one][other] += 1
            found[other][one] += 1
    return found
