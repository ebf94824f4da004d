"""Set operators over some of the columns that others combine: the columns of a union are the union of the columns.

    wide       SELECT a, b FROM s       UNION ALL  SELECT a, b FROM r
    narrow     SELECT b FROM s          UNION ALL  SELECT b FROM r        UNION ALL  SELECT c FROM q
          →    (SELECT c1 FROM wide)    UNION ALL  SELECT c FROM q

Operands correspond if they differ in their select lists alone, and every column of the narrow one is at the same place
in all operands of the wide one. What may then be made of what:

    UNION ALL     of UNION ALL, each operand as often as it is there
    UNION         of UNION ALL and of UNION. Rows that differ in columns that are left out become equal, so values are
                  made distinct once more. Each value comes in the same cycle and with the same clock: when it is new,
                  so are all wide rows that have it, and the first of them comes first
    EXCEPT        its subtrahend, like UNION: it is all the same how often a value is taken away

No more than that. What EXCEPT and INTERSECT leave over depends on all columns: of A = {(1, 1)} and B = {(1, 2)},
A EXCEPT B has a row whose first column is 1, and A INTERSECT B has none. Neither is a DISTINCT operand's select list
free. If no column is left out, only other places, one operator may be made of another of its own kind.

RETAIN <interval> keeps chains as they are written, as in `arrange_set_operators.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from weft.algebra import AggregateRef, Column, Expression, Input, Output, Relation, Select, SetOperation, SetOperator
from weft.algebra.codec import dumps
from weft.plan.canonical import is_free, operands_of, substituted, with_subqueries

#: For each column of the narrow operator, its place among those of the wide one.
Places = tuple[int, ...]

_INPUT = "t0"


@dataclass(frozen=True)
class Operand:
    """An operand apart from its select list. Only those of selects can be told apart; others have all in `body`."""

    body: str
    columns: tuple[Expression, ...]
    is_distinct: bool = False


@dataclass(frozen=True)
class Chain:
    """A chain of one operator with its operands; of EXCEPT the first is not among `others`."""

    text: str
    operation: SetOperation
    first: Operand | None
    others: tuple[Operand, ...]

    @property
    def rank(self) -> tuple[int, str]:
        """Chains are made of those before them: wider ones, or as wide ones by their texts."""
        return -len(self.operation.fields), self.text

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.others if self.first is None else (self.first, *self.others)


@dataclass(frozen=True)
class WideMatch:
    """A wide chain that a part of a narrow one can be made of: which columns, and the operands that they replace."""

    wide: Chain
    places: Places
    taken: tuple[Operand, ...]
    #: Whether it replaces the first operand of an EXCEPT as well.
    with_first: bool = False

    @property
    def is_reordered(self) -> bool:
        """Whether all columns are there."""
        return set(self.places) == set(range(len(self.wide.operation.fields)))


def described(operation: SetOperation) -> Chain:
    """A chain in terms of what its operands have in common with others."""
    first, *others = (_operand(each) for each in operands_of(operation))
    if operation.operator is SetOperator.EXCEPT:
        return Chain(dumps(operation), operation, first, tuple(others))
    return Chain(dumps(operation), operation, None, (first, *others))


def _operand(relation: Relation) -> Operand:
    if isinstance(relation, SetOperation):
        places = (Column("", str(number), each.type) for number, each in enumerate(relation.fields))
        return Operand(dumps(relation), tuple(places), is_distinct=True)
    # An aggregate is called by what it is and not by its place, so that others may have more of them.
    called: dict[Expression, Expression] = {
        AggregateRef(number, each.type): Column("", repr(each), each.type)
        for number, each in enumerate(relation.aggregates)
    }
    having = None if relation.having is None else substituted(relation.having, called)
    body = dumps(replace(relation, outputs=(), aggregates=(), having=having))
    columns = tuple(substituted(each.expression, called) for each in relation.outputs)
    return Operand(f"{relation.is_grouped} {body}", columns, relation.distinct)


def widest_part(narrow: Chain, chains: Iterable[Chain]) -> WideMatch | None:
    """What most operands of a chain can be made of; of those the one with the fewest columns."""
    found = [each for wide in chains if wide.rank < narrow.rank and (each := _part_of(narrow, wide)) is not None]
    return min(
        found, key=lambda each: (-len(each.taken), len(each.wide.operation.fields), each.wide.text), default=None
    )


def why_not(narrow: Chain, wide: Chain) -> str | None:
    """Why a chain is not made of columns of a wider one although its operands would be; None if they would not."""
    one, other = narrow.operation, wide.operation
    if one.operator is not other.operator or wide.rank >= narrow.rank:
        return None
    if _places(narrow, wide) is None or _part_of(narrow, wide) is not None:
        return None
    if other.operator is not SetOperator.UNION:
        return f"what {other.operator.value} leaves over depends on the columns that are left out"
    if one.all and not other.all:
        return "UNION has left out rows that UNION ALL gives"
    if not (is_free(one) and is_free(other)):
        return "what RETAIN <interval> remembers depends on all columns"
    if any(each.is_distinct for each in wide.operands):
        return "what DISTINCT leaves out depends on all columns"
    return "their windows differ" if one.window != other.window else None


def _part_of(narrow: Chain, wide: Chain) -> WideMatch | None:
    one, other = narrow.operation, wide.operation
    if not (is_free(one) and is_free(other)) or one.window != other.window or one.clock_type != other.clock_type:
        return None
    found = _places(narrow, wide)
    if found is None:
        return None
    if found.is_reordered and (one.operator, one.all) == (other.operator, other.all):
        return found if found.with_first == (one.operator is SetOperator.EXCEPT) else None
    if other.operator is not SetOperator.UNION or any(each.is_distinct for each in wide.operands):
        return None
    if one.operator is SetOperator.UNION:
        return found if other.all or not one.all else None
    return found if one.operator is SetOperator.EXCEPT and not one.all else None


def _places(narrow: Chain, wide: Chain) -> WideMatch | None:
    """Other places of a chain's columns in a wider one whose operands are all among its own."""
    as_they_are = tuple(range(len(wide.operation.fields)))
    anywhere = tuple(frozenset(as_they_are) for _ in narrow.operation.fields)
    if wide.first is not None:
        if narrow.first is None or narrow.first.body != wide.first.body:
            return None
        anywhere = _agreeing(anywhere, narrow.first, wide.first)
    for possible, taken in _assignments(wide.others, Counter(narrow.others), anywhere, narrow.operation.all):
        places = tuple(map(min, possible))
        return WideMatch(wide, places, taken, wide.first is not None) if places != as_they_are else None
    return None


def _assignments(
    wide: Sequence[Operand], left: Counter[Operand], places: tuple[frozenset[int], ...], each_once: bool
) -> Iterator[tuple[tuple[frozenset[int], ...], tuple[Operand, ...]]]:
    """The ways to find an operand for each of the wide ones; each replaces one of them alone, if it counts."""
    if not wide:
        yield places, ()
        return
    for operand in left:
        if operand.body != wide[0].body:
            continue
        narrower = _agreeing(places, operand, wide[0])
        if all(narrower):
            rest = left - Counter([operand]) if each_once else left
            for found, taken in _assignments(wide[1:], rest, narrower, each_once):
                yield found, (operand, *taken)


def _agreeing(places: tuple[frozenset[int], ...], narrow: Operand, wide: Operand) -> tuple[frozenset[int], ...]:
    """The places at which the wide operand has what the narrow one has."""
    return tuple(
        frozenset(place for place in possible if wide.columns[place] == column)
        for possible, column in zip(places, narrow.columns, strict=True)
    )


class Narrowing:
    """Makes chains of columns of wider ones, wherever they stand in relations."""

    def __init__(self, chains: Iterable[SetOperation]) -> None:
        self._chains = {each.text: each for each in (described(chain) for chain in chains)}
        self._of_body: dict[str, list[str]] = {}
        for text, each in self._chains.items():
            for body in {operand.body for operand in each.operands}:
                self._of_body.setdefault(body, []).append(text)
        self._done: dict[str, Relation] = {}

    def narrowed(self, relation: Relation) -> Relation:
        """A relation whose chains are made of columns of wider ones, where they can be."""
        if isinstance(relation, SetOperation):
            text = dumps(relation)
            if text not in self._done:
                self._done[text] = self._of_chain(self._chains[text])
            return self._done[text]
        return with_subqueries(relation, self.narrowed)

    def _of_chain(self, chain: Chain) -> Relation:
        operation = chain.operation
        written = dict(zip(chain.operands, operands_of(operation), strict=True))
        left, made = chain, list[WideMatch]()
        while (found := widest_part(left, self._near(left))) is not None:
            made.append(found)
            counted = Counter(left.others) - Counter(found.taken)
            others = counted.elements() if operation.all else (each for each in left.others if each not in found.taken)
            left = replace(left, first=None if found.with_first else left.first, others=tuple(others))
            if found.with_first or not left.others:
                break
        first = [] if left.first is None else [self.narrowed(written[left.first])]
        if made and made[-1].with_first:
            first = [self._columns(made.pop())]
        parts = [*first, *map(self._columns, made), *(self.narrowed(written[each]) for each in left.others)]
        if len(parts) == 1:
            (whole,) = parts
            is_of_values = made and made[0].is_reordered and not made[0].wide.operation.all
            return whole if first or operation.all or is_of_values else _made_distinct(operation, whole)
        return reduce(lambda one, other: replace(operation, left=one, right=other), parts)

    def _near(self, chain: Chain) -> list[Chain]:
        """The chains that have an operand of this one."""
        texts = {text for operand in chain.operands for text in self._of_body.get(operand.body, ())}
        return [self._chains[text] for text in sorted(texts)]

    def _columns(self, found: WideMatch) -> Relation:
        """The columns of a wide chain that a narrow one has."""
        return _picked(self.narrowed(found.wide.operation), found.places)


def _picked(source: Relation, places: Places) -> Select:
    columns = (Column(_INPUT, each.name, each.type) for each in (source.fields[place] for place in places))
    outputs = tuple(Output(f"c{number}", each) for number, each in enumerate(columns))
    return Select((Input(source, _INPUT),), None, outputs, source.clock_type)


def _made_distinct(operation: SetOperation, rows: Relation) -> Relation:
    """The values of a UNION that has one operand."""
    if operation.window is not None:
        # It takes two to be an operator; in an instance, one of them adds nothing to the other.
        return replace(operation, left=rows, right=rows)
    whole = _picked(rows, tuple(range(len(rows.fields))))
    return replace(whole, distinct=True, retain=operation.retain)
