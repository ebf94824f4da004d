"""Set operators put together so that queries share what they have in common, wherever it stands in them.

    B UNION C                       →   B UNION C
    A UNION B UNION C               →   (B UNION C) UNION A            what the first gives, and A
    A EXCEPT B EXCEPT C             →   A EXCEPT (B UNION C)           what is taken away, from the first too
    D EXCEPT B EXCEPT C EXCEPT E    →   D EXCEPT ((B UNION C) UNION ALL E)

A chain of one operator is a bag of operands: what it consists of decides, not the order they are written in. Chains
with fewer operands are put together first, so that longer ones find them. Of what no chain has made yet, the operands
that most chains have come first: chains that have several of them in common begin alike.

    UNION ALL           counts its operands: A UNION ALL A is no part of A UNION ALL B, but of A UNION ALL A UNION ALL B
    UNION, INTERSECT    does not: a value is there or it is not. UNION may be made of what UNION ALL gives; what it
                        lets through is remembered once, by the last operator, and not by each of them
    EXCEPT              takes the same away whether values of the others come once or often, together or in turn

Operands that differ in the columns they select come together in `share_set_columns.py`, before all of this.

All of that holds between window instances, and over history as long as everything is remembered; with RETAIN
<interval>, what an operator lets through decides what the next one remembers, and chains stay as they are written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from weft.algebra import Relation, Retain, Select, SetOperation, SetOperator, Window
from weft.algebra.codec import dumps
from weft.optimizer.sets.share_set_columns import Narrowing
from weft.plan.canonical import is_free, operands_of, with_ordered_operands, with_subqueries

#: Something that has been put together, and the operands that it consists of.
Part = tuple[tuple[str, ...], Relation]


def arranged(relations: Sequence[Relation]) -> list[Relation]:
    """Relations of queries that begin together, with set operators that share all they can."""
    ordered = [with_ordered_operands(each) for each in relations]
    narrowing = Narrowing(chain for each in ordered for chain in chains_in(each))
    ordered = [with_ordered_operands(narrowing.narrowed(each)) for each in ordered]
    arranging = _Arranging()
    arranging.put_together(chain for each in ordered for chain in chains_in(each))
    return [arranging.rebuilt(each) for each in ordered]


def chains_in(relation: Relation) -> Iterator[SetOperation]:
    if isinstance(relation, SetOperation):
        yield relation
    for each in _below(relation):
        yield from chains_in(each)


def _below(relation: Relation) -> list[Relation]:
    """The operands of a chain, the subqueries of a select."""
    if isinstance(relation, SetOperation):
        return operands_of(relation)
    return [each.source for each in relation.inputs if isinstance(each.source, (Select, SetOperation))]


@dataclass(frozen=True)
class _ChainKind:
    """What the operators of a chain have in common; of EXCEPT also what the others are taken away from."""

    operator: SetOperator
    all: bool
    window: Window | None
    retain: Retain | None
    first: str = ""


@dataclass
class _Made:
    """What has been put together of one kind, by the operands that it consists of, in order: a trie."""

    relation: Relation | None = None
    longer: dict[str, _Made] = field(default_factory=dict)

    def add(self, operands: Sequence[str], relation: Relation) -> None:
        here = self
        for each in sorted(operands):
            here = here.longer.setdefault(each, _Made())
        if here.relation is None:
            here.relation = relation

    def largest_within(self, operands: Sequence[str]) -> Part | None:
        """What consists of most of some operands, which are in order, and of nothing else."""
        best: Part | None = None
        waiting: list[tuple[_Made, int, tuple[str, ...]]] = [(self, 0, ())]
        while waiting:
            here, place, taken = waiting.pop()
            if here.relation is not None and (best is None or (-len(taken), taken) < (-len(best[0]), best[0])):
                best = taken, here.relation
            for position in range(place, len(operands)):
                # Of equal ones the first is taken: the rest are further on.
                is_new = position == place or operands[position] != operands[position - 1]
                longer = here.longer.get(operands[position]) if is_new else None
                if longer is not None:
                    waiting.append((longer, position + 1, (*taken, operands[position])))
        return best


class _Arranging:
    """Put chains together, one after the other. Operands are compared by their texts."""

    def __init__(self) -> None:
        self._made: defaultdict[_ChainKind, _Made] = defaultdict(_Made)
        self._chains: dict[str, Relation] = {}
        #: In how many chains each operand is.
        self._often: Counter[str] = Counter()

    def put_together(self, chains: Iterable[SetOperation]) -> None:
        """Chains inside others first, and of those the ones with few operands."""
        found = {dumps(each): each for each in chains}
        for each in found.values():
            self._often.update({dumps(operand) for operand in operands_of(each)})
        order = {text: (_height(each), len(operands_of(each)), text) for text, each in found.items()}
        for text in sorted(found, key=lambda each: order[each]):
            self._chains[text] = self._arranged(found[text])

    def rebuilt(self, relation: Relation) -> Relation:
        """A relation whose chains have been put together."""
        if isinstance(relation, SetOperation):
            return self._chains[dumps(relation)]
        return with_subqueries(relation, self.rebuilt)

    def _arranged(self, chain: SetOperation) -> Relation:
        written = operands_of(chain)
        texts = [dumps(each) for each in written]
        operands = {text: self.rebuilt(each) for text, each in zip(texts, written, strict=True)}
        if not is_free(chain):
            return replace(chain, left=operands[texts[0]], right=operands[texts[1]])
        if chain.operator is SetOperator.EXCEPT:
            return self._less(chain, texts[0], _wanted(chain, texts[1:]), operands)
        wanted = _wanted(chain, texts)
        # What is one operand, however often it is written, takes two to be an operator.
        wanted = wanted if len(wanted) > 1 else tuple(sorted(texts))
        return self._seen_once(chain, wanted, operands) if _remembers(chain) else self._folded(chain, wanted, operands)

    def _folded(self, chain: SetOperation, texts: Sequence[str], operands: Mapping[str, Relation]) -> Relation:
        """Operands one after the other, beginning with what is there of them."""
        parts, left = self._parts(_kind(chain), texts)
        parts += [((text,), operands[text]) for text in sorted(left, key=lambda each: (-self._often[each], each))]
        done, whole = parts[0]
        for taken, relation in parts[1:]:
            done, whole = (*done, *taken), replace(chain, left=whole, right=relation)
            self._made[_kind(chain)].add(done, whole)
        return whole

    def _seen_once(self, chain: SetOperation, texts: Sequence[str], operands: Mapping[str, Relation]) -> Relation:
        """UNION over history: all operands but the last pass through, so that one operator remembers values."""
        parts, left = self._parts(_kind(chain), texts)
        if not left and len(parts) == 1:
            return parts[0][1]
        passing, listed = _passing(chain), [relation for _, relation in parts]
        if left:
            last = self._outside_of_what_is_there(_kind(passing), left)
            others = _without(left, (last,))
            listed = [*([self._folded(passing, others, operands)] if others else []), *listed, operands[last]]
        *first, right = listed
        whole = replace(chain, left=_all_of(passing, first), right=right)
        self._made[_kind(chain)].add(texts, whole)
        return whole

    def _outside_of_what_is_there(self, kind: _ChainKind, texts: Sequence[str]) -> str:
        """An operand such that what is there of the others can be used; one that few chains have."""
        made, rare = self._made[kind], sorted(set(texts), key=lambda text: (self._often[text], text))
        return next((each for each in rare if made.largest_within(_without(texts, (each,))) is not None), rare[0])

    def _less(
        self, chain: SetOperation, first: str, texts: Sequence[str], operands: Mapping[str, Relation]
    ) -> Relation:
        """EXCEPT: from what has some of it taken away already, or from the first operand."""
        kind = replace(_kind(chain), first=first)
        found = self._made[kind].largest_within(texts)
        done, whole = found if found is not None else ((), operands[first])
        left = _without(texts, done)
        unions: list[Part] = []
        if not chain.all:
            unions, left = self._parts(_kind(replace(chain, operator=SetOperator.UNION)), left)
        if _remembers(chain) and (unions or left):
            # All that is taken away comes together, so that one operator remembers it.
            passing = _passing(chain)
            listed = [*([self._folded(passing, left, operands)] if left else []), *(each for _, each in unions)]
            unions = [(_without(texts, done), _all_of(passing, listed))]
            left = ()
        for taken, relation in [*unions, *(((text,), operands[text]) for text in left)]:
            done, whole = (*done, *taken), replace(chain, left=whole, right=relation)
            self._made[kind].add(done, whole)
        return whole

    def _parts(self, kind: _ChainKind, texts: Sequence[str]) -> tuple[list[Part], tuple[str, ...]]:
        """What is there of some operands, the largest first, and the operands that are in none of it."""
        parts: list[Part] = []
        made, left = self._made[kind], tuple(texts)
        while (found := made.largest_within(left)) is not None:
            parts.append(found)
            left = _without(left, found[0])
        return parts, left


def _height(relation: Relation) -> int:
    """How many chains are inside each other."""
    return isinstance(relation, SetOperation) + max(map(_height, _below(relation)), default=0)


def _kind(chain: SetOperation) -> _ChainKind:
    return _ChainKind(chain.operator, chain.all, chain.window, chain.retain)


def _wanted(chain: SetOperation, texts: Sequence[str]) -> tuple[str, ...]:
    """The operands of a chain in order: with ALL each as often as it is written."""
    return tuple(sorted(texts if chain.all else set(texts)))


def _without(texts: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted((Counter(texts) - Counter(taken)).elements()))


def _remembers(chain: SetOperation) -> bool:
    """Whether an operator remembers values for as long as it lives; UNION ALL then passes them on."""
    return chain.window is None and not chain.all and chain.operator is not SetOperator.INTERSECT


def _passing(chain: SetOperation) -> SetOperation:
    """The UNION ALL that gives an operator several operands as one."""
    return replace(chain, operator=SetOperator.UNION, all=True, retain=None)


def _all_of(operation: SetOperation, relations: Sequence[Relation]) -> Relation:
    return reduce(lambda left, right: replace(operation, left=left, right=right), relations)
