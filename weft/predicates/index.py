"""An index of predicate sets: which of them subsume a new one, and which does it subsume?

Three layers, each a look-up in the one below: literals by subject and bound, the disjunctions that a literal is in, the
predicate sets that a disjunction is in. With P implying Q iff every disjunction of Q is implied by some disjunction of
P, and so on below, the four questions are unions or intersections:

    disjunctions that p implies      those that, for every literal of p, have a literal that it implies
    disjunctions that imply p        those of which all literals imply some literal of p
    sets that P implies              those of which all disjunctions are implied by some disjunction of P
    sets that imply P                those that, for every disjunction of P, have one that implies it

The time grows with what each layer finds: for one column among a million others that is one step, but every set that
contains a disjunction which is implied gets looked at. Where thousands of sets differ in their constants alone and only
the closest are wanted, `closest` is the index to ask.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from weft.predicates.clauses import FALSE_SET, TRUE_SET, Disjunction, PredicateSet
from weft.predicates.implication import DECREASING, EQUAL, INCREASING, SUBSUMABLE, SUBSUMABLE_UNEQUAL
from weft.predicates.intervals import Place
from weft.predicates.literals import IS_NOT_NULL, IS_NULL, Triple
from weft.predicates.subjects import Subject

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)

#: For each operator, the operators that it implies and by which order of the constants; and the other way round.
_IMPLIED: dict[str, list[tuple[str, str]]] = {}
_IMPLYING: dict[str, list[tuple[str, str]]] = {}
for _stronger, _weaker, _order in sorted(SUBSUMABLE | SUBSUMABLE_UNEQUAL):
    _IMPLIED.setdefault(_stronger, []).append((_weaker, _order))
    _IMPLYING.setdefault(_weaker, []).append((_stronger, _order))


class LiteralIndex:
    """Literals, by subject and operator in the order of their bounds."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Subject, str], list[Place]] = {}
        self._literals: dict[tuple[Subject, str, Place | None], Triple] = {}
        #: Those that say, or say among other things, that something has a value, by each of its parts.
        self._presences: dict[Subject, set[Triple]] = {}
        self._comparisons: dict[Subject, set[Triple]] = {}

    def add(self, literal: Triple) -> None:
        subject, operator, bound = literal.subject, literal.operator, literal.bound
        self._literals[subject, operator, bound] = literal
        if bound is not None:
            insort(self._rows.setdefault((subject, operator), []), bound)
        for by_part in self._by_part(literal):
            for part in subject.parts:
                by_part.setdefault(part, set()).add(literal)

    def remove(self, literal: Triple) -> None:
        subject, operator, bound = literal.subject, literal.operator, literal.bound
        del self._literals[subject, operator, bound]
        if bound is not None:
            places = self._rows[subject, operator]
            places.pop(bisect_left(places, bound))
        for by_part in self._by_part(literal):
            for part in subject.parts:
                _take(by_part, part, literal)

    def _by_part(self, literal: Triple) -> Iterator[dict[Subject, set[Triple]]]:
        if literal.operator == IS_NOT_NULL:
            yield self._presences
        if literal.operator != IS_NULL:
            yield self._comparisons

    def implied_by(self, literal: Triple) -> Iterator[Triple]:
        """The literals that are TRUE wherever this one is."""
        yield from self._same(literal)
        if literal.operator == IS_NULL:
            return
        parts = set(literal.subject.parts)
        presences = {each for part in parts for each in self._presences.get(part, ())}
        yield from (each for each in presences if each != literal and parts.issuperset(each.subject.parts))
        for operator, order in _IMPLIED.get(literal.operator, ()):
            # The bounds compare as `literal.bound order bound`.
            yield from self._compared(literal, operator, order)

    def implying(self, literal: Triple) -> Iterator[Triple]:
        """The literals that are TRUE only where this one is."""
        yield from self._same(literal)
        if literal.operator == IS_NOT_NULL:
            having = (self._comparisons.get(part, set()) for part in literal.subject.parts)
            yield from (each for each in _in_all(having) if each != literal)
        mirrored = {EQUAL: EQUAL, DECREASING: INCREASING, INCREASING: DECREASING}
        for operator, order in _IMPLYING.get(literal.operator, ()):
            yield from self._compared(literal, operator, mirrored[order])

    def _same(self, literal: Triple) -> Iterator[Triple]:
        same = self._literals.get((literal.subject, literal.operator, literal.bound))
        if same is not None:
            yield same

    def _compared(self, literal: Triple, operator: str, order: str) -> Iterator[Triple]:
        """The literals of the same subject with an operator and a bound b for which `literal.bound order b`."""
        places = self._rows.get((literal.subject, operator), [])
        assert literal.bound is not None
        first, last = bisect_left(places, literal.bound), bisect_right(places, literal.bound)
        ranges = {EQUAL: range(first, last), DECREASING: range(first), INCREASING: range(last, len(places))}
        for position in ranges[order]:
            yield self._literals[literal.subject, operator, places[position]]


class PredicateIndex(Generic[Key]):
    """Predicate sets by key. Several keys may have the same set."""

    def __init__(self) -> None:
        self._literals = LiteralIndex()
        self._disjunctions: dict[Triple, set[Disjunction]] = {}
        self._sets: dict[Disjunction, set[PredicateSet]] = {}
        self._keys: dict[PredicateSet, set[Key]] = {}
        self._set_of: dict[Key, PredicateSet] = {}

    def add(self, key: Key, predicates: PredicateSet) -> None:
        """Adds a set under a key that is not there yet."""
        if key in self._set_of:
            raise ValueError(f"{key!r} is in the index already: remove it first")
        self._set_of[key] = predicates
        self._keys.setdefault(predicates, set()).add(key)
        for disjunction in predicates.disjunctions:
            if _put(self._sets, disjunction, predicates):
                for literal in disjunction.literals:
                    if _put(self._disjunctions, literal, disjunction):
                        self._literals.add(literal)

    def remove(self, key: Key) -> None:
        """Removes a key, and what no other key needs."""
        predicates = self._set_of.pop(key)
        if not _take(self._keys, predicates, key):
            return
        for disjunction in predicates.disjunctions:
            if _take(self._sets, disjunction, predicates):
                for literal in disjunction.literals:
                    if _take(self._disjunctions, literal, disjunction):
                        self._literals.remove(literal)

    def equal_to(self, predicates: PredicateSet) -> frozenset[Key]:
        """The keys of the set with just this text."""
        return frozenset(self._keys.get(predicates, ()))

    def implied_by(self, predicates: PredicateSet) -> frozenset[Key]:
        """The keys of the sets that subsume this one: they are TRUE wherever it is."""
        if predicates.is_false:
            return frozenset(self._set_of)
        covered: dict[PredicateSet, set[Disjunction]] = {TRUE_SET: set()}
        for disjunction in predicates.disjunctions:
            for weaker in self._disjunctions_implied_by(disjunction):
                for each in self._sets[weaker]:
                    covered.setdefault(each, set()).add(weaker)
        return self._keys_of(each for each, found in covered.items() if len(found) == len(each.disjunctions))

    def implying(self, predicates: PredicateSet) -> frozenset[Key]:
        """The keys of the sets that this one subsumes: they are TRUE only where it is."""
        if not predicates.disjunctions:
            return frozenset(self._set_of)
        found = _in_all(
            {each for stronger in self._disjunctions_implying(disjunction) for each in self._sets[stronger]}
            for disjunction in predicates.disjunctions
        )
        return self._keys_of({*found, FALSE_SET})

    def _keys_of(self, sets: Iterable[PredicateSet]) -> frozenset[Key]:
        return frozenset(key for each in sets for key in self._keys.get(each, ()))

    def _disjunctions_implied_by(self, disjunction: Disjunction) -> set[Disjunction]:
        return _in_all(
            self._with_literals(self._literals.implied_by, literal).keys() for literal in disjunction.literals
        )

    def _disjunctions_implying(self, disjunction: Disjunction) -> set[Disjunction]:
        covered: dict[Disjunction, set[Triple]] = {}
        for literal in disjunction.literals:
            for each, found in self._with_literals(self._literals.implying, literal).items():
                covered.setdefault(each, set()).update(found)
        return {each for each, found in covered.items() if len(found) == len(each.literals)}

    def _with_literals(
        self, search: Callable[[Triple], Iterator[Triple]], literal: Triple
    ) -> dict[Disjunction, set[Triple]]:
        """The disjunctions that have literals which a search finds, and which of their literals these are."""
        result: dict[Disjunction, set[Triple]] = {}
        for found in search(literal):
            for each in self._disjunctions[found]:
                result.setdefault(each, set()).add(found)
        return result


def _in_all(sets: Iterable[Iterable[Item]]) -> set[Item]:
    iterator = iter(sets)
    common = set(next(iterator, ()))
    for each in iterator:
        common &= set(each)
    return common


def _put(index: dict[Item, set[Key]], key: Item, value: Key) -> bool:
    """Adds to a multimap; whether the key is new."""
    is_new = key not in index
    index.setdefault(key, set()).add(value)
    return is_new


def _take(index: dict[Item, set[Key]], key: Item, value: Key) -> bool:
    """Takes from a multimap; whether the key has gone."""
    index[key].discard(value)
    if index[key]:
        return False
    del index[key]
    return True
