"""The closest of the sets that a new one implies, among very many that differ in their constants.

Of ten thousand queries for `amount > x` and a window of w days, one in four subsumes the next query. To share a node
only the closest matter, those with no other one in between.

Sets are kept in families. A family has the same disjunctions but for the constants of its **ends**, the literals that
bound a subject from below or from above:

    type_code = 1000,  T1.k = T2.k,  T1.amount > x,  T1.ts - T2.ts >= y          ends: x, y

A new set either implies the rest of a family or it does not, once for all members. What is left is a question about
points: which of the members (x, y, …) are loose enough in every end, with no other such member that is tighter? A tree
that halves the points along one end after the other answers it. Trees are never changed: a new point is a tree of its
own, and trees of the same size are put together, so that they stay few.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, Generic, TypeAlias, TypeVar

from weft.predicates.clauses import Disjunction, PredicateSet, follows_from_one
from weft.predicates.domains import Cut
from weft.predicates.subjects import Subject

Key = TypeVar("Key", bound=Hashable)

#: A subject, and whether it is bounded from below.
End: TypeAlias = tuple[Subject, bool]

#: What the members of a family have in common.
_Rest: TypeAlias = tuple[tuple[Disjunction, ...], tuple[End, ...]]

#: How tight a set is in each end of its family; larger is tighter.
Point: TypeAlias = tuple[Any, ...]

_FEW = 8


@total_ordering
@dataclass(frozen=True, slots=True)
class _Below:
    """An upper end: the smaller its cut, the tighter it is, and the larger it counts."""

    cut: Cut

    def __lt__(self, other: _Below) -> bool:
        return other.cut < self.cut


@dataclass(frozen=True, slots=True)
class _Tree:
    """Points of a family: a few of them, or two halves. `tightest` and `loosest` bound them in every end."""

    size: int
    tightest: Point
    loosest: Point
    points: tuple[Point, ...] = ()
    halves: tuple[_Tree, ...] = ()


@dataclass(slots=True)
class _Family(Generic[Key]):
    """Sets that differ in their ends alone. The trees may hold points that have no keys any more."""

    rest: tuple[Disjunction, ...]
    ends: tuple[End, ...]
    keys: dict[Point, set[Key]] = field(default_factory=dict)
    trees: list[_Tree] = field(default_factory=list)


class ClosestIndex(Generic[Key]):
    """Predicate sets by key; several keys may have the same set."""

    def __init__(self) -> None:
        self._families: dict[Disjunction | None, dict[_Rest, _Family[Key]]] = {}
        self._places: dict[Key, tuple[_Family[Key], Point]] = {}

    def add(self, key: Key, predicates: PredicateSet) -> None:
        """Adds a set under a key that is not there yet."""
        if key in self._places:
            raise ValueError(f"{key!r} is in the index already: remove it first")
        rest, bounds = _taken_apart(predicates)
        ends = tuple(sorted(bounds, key=lambda end: (end[0].text, end[1])))
        families = self._families.setdefault(_anchor(rest), {})
        family = families.setdefault((rest, ends), _Family(rest, ends))
        point = tuple(bounds[end] for end in ends)
        if point not in family.keys:
            points = [point]
            while family.trees and family.trees[-1].size <= len(points):
                points += _points(family.trees.pop())
            family.trees.append(_tree(points))
        family.keys.setdefault(point, set()).add(key)
        self._places[key] = family, point

    def remove(self, key: Key) -> None:
        family, point = self._places.pop(key)
        family.keys[point].discard(key)
        if not family.keys[point]:
            del family.keys[point]
        if not family.keys:
            del self._families[_anchor(family.rest)][family.rest, family.ends]
        elif 2 * len(family.keys) <= sum(tree.size for tree in family.trees):
            family.trees = [_tree(list(family.keys))]

    def closest(self, predicates: PredicateSet) -> frozenset[Key]:
        """The keys of sets that this one implies, such that no other set of their families lies in between.

        A set that is never TRUE implies all others and is close to none.
        """
        if predicates.is_false:
            return frozenset()
        limits = _limits(predicates)
        found: set[Key] = set()
        for anchor in (None, *predicates.disjunctions):
            for family in self._families.get(anchor, {}).values():
                if not all(end in limits for end in family.ends):
                    continue
                if all(follows_from_one(each, predicates) for each in family.rest):
                    limit, best = tuple(limits[end] for end in family.ends), list[Point]()
                    for tree in family.trees:
                        _search(tree, limit, family.keys, best)
                    found.update(*(family.keys[point] for point in best))
        return frozenset(found)


def _anchor(rest: tuple[Disjunction, ...]) -> Disjunction | None:
    """An equation that all members have, if there is one: nothing implies it but itself, so it can be looked up."""
    return next((each for each in rest if len(each.literals) == 1 and each.literals[0].operator == "="), None)


def _taken_apart(predicates: PredicateSet) -> tuple[tuple[Disjunction, ...], Mapping[End, Any]]:
    """The ends of a set, and the disjunctions that are none."""
    rest: list[Disjunction] = []
    bounds: dict[End, Any] = {}
    for disjunction in predicates.disjunctions:
        if len(disjunction.literals) == 1 and disjunction.literals[0].operator in ("<", "<=", ">=", ">"):
            (literal,) = disjunction.literals
            ((low, high),) = literal.values.spans
            is_lower = literal.operator in (">=", ">")
            bounds[literal.subject, is_lower] = low if is_lower else _Below(high)
        else:
            rest.append(disjunction)
    return tuple(rest), bounds


def _limits(predicates: PredicateSet) -> Mapping[End, Any]:
    """How tight a set is in both ends of every subject that one of its disjunctions is about."""
    limits: dict[End, Any] = {}
    for disjunction in predicates.disjunctions:
        grouped = disjunction.by_subject
        for subject, values in grouped.items():
            if len(grouped) == 1 and values.spans and not values.null:
                low, high = values.spans[0][0], _Below(values.spans[-1][1])
                limits[subject, True] = max(low, limits.get((subject, True), low))
                limits[subject, False] = max(high, limits.get((subject, False), high))
    return limits


def _search(tree: _Tree, limit: Point, present: Mapping[Point, object], best: list[Point]) -> None:
    """Adds to the best points those of a tree that are loose enough and not looser than one of them."""
    if not _is_looser(tree.loosest, limit):
        return
    nearest = tuple(map(min, tree.tightest, limit))
    if any(_is_looser(nearest, each) for each in best):
        return
    for half in tree.halves:
        _search(half, limit, present, best)
    for point in tree.points:
        if point in present and _is_looser(point, limit) and not any(_is_looser(point, each) for each in best):
            best[:] = [each for each in best if not _is_looser(each, point)]
            best.append(point)


def _is_looser(left: Point, right: Point) -> bool:
    """Whether a point is as loose as another, or looser, in every end."""
    return all(a <= b for a, b in zip(left, right, strict=True))


def _points(tree: _Tree) -> Iterator[Point]:
    yield from tree.points
    for half in tree.halves:
        yield from _points(half)


def _tree(points: Sequence[Point], axis: int = 0) -> _Tree:
    """Points halved along one end after the other. The tighter half comes first: it holds the closer points."""
    tightest = tuple(map(max, zip(*points, strict=True)))
    loosest = tuple(map(min, zip(*points, strict=True)))
    if len(points) <= _FEW:
        return _Tree(len(points), tightest, loosest, points=tuple(points))
    ordered = sorted(points, key=lambda point: point[axis], reverse=True)
    middle, following = len(points) // 2, (axis + 1) % len(tightest)
    halves = _tree(ordered[:middle], following), _tree(ordered[middle:], following)
    return _Tree(len(points), tightest, loosest, halves=halves)
