"""Predicate signatures: rows are told apart by which predicates they satisfy, once for all groups.

Every different predicate of a plan has a bit. The signature of a row has the bits of the predicates that it satisfies;
sub-aggregation keeps a partial for each signature that occurs, so a row is folded once however many queries want it.
Guirguis, "Scalable Processing of Multiple Aggregate Continuous Queries", calls the table from signatures to partials
IPS, inverted predicate signatures: the signature is the address, and is stored with nothing.

    predicates         bit 0: price > 100        bit 1: symbol = 'A'
    signature 01       read by the groups with a query for price > 100
    signature 11       read by those and by the groups with a query for symbol = 'A'
    signature 00       nobody's, unless some query takes all rows

A group may hold queries of different predicates. It gets one stream of partials for each *different* predicate in it,
combined from the signatures with that bit: a single one for the group would mix rows that some of its queries never
asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.optimizer.weave.costing import Counted


@dataclass(frozen=True, slots=True)
class Signatures:
    """Which bit each predicate has, and which predicates each group reads."""

    predicates: tuple[str, ...]
    """By bit, the lowest first. The empty predicate, all rows, has no bit: every signature satisfies it."""

    groups: tuple[frozenset[str], ...]
    """The different predicates of each group's queries."""

    def signature(self, satisfied: Iterable[str]) -> int:
        """The signature of a row that satisfies these predicates."""
        return sum(1 << self.predicates.index(predicate) for predicate in set(satisfied))

    def satisfies(self, signature: int, predicate: str) -> bool:
        """Whether rows with this signature satisfy a predicate."""
        return not predicate or bool(signature >> self.predicates.index(predicate) & 1)

    def readers(self, signature: int) -> list[int]:
        """The groups that read partials with this signature, by number."""
        return [
            number
            for number, predicates in enumerate(self.groups)
            if any(self.satisfies(signature, predicate) for predicate in predicates)
        ]

    def references(self, signature: int) -> int:
        """How many groups have to read a partial with this signature before it can be let go; 0: it is never kept."""
        return len(self.readers(signature))

    def entries(self, group: int, signatures: Iterable[int]) -> dict[str, tuple[int, ...]]:
        """For each predicate of a group, which of these signatures are combined into its partials."""
        occurring = sorted(set(signatures))
        return {
            predicate: tuple(signature for signature in occurring if self.satisfies(signature, predicate))
            for predicate in sorted(self.groups[group])
        }

    def most_shards(self, group: int) -> int:
        """How many signatures may occur at most in what a group reads: the partials of one fragment."""
        bits = len(self.groups[group] - {""})
        others = len(self.predicates) - bits
        inside = 2**bits if "" in self.groups[group] else 2**bits - 1
        return int(inside * 2**others)


def signatures_of(groups: Sequence[Counted], known: Signatures | None = None) -> Signatures:
    """The signatures of a plan with these groups.

    Predicates keep the bits they have in `known`: partials that are there stay where they are. A new predicate takes a
    bit above all others, which old partials do not have, and no row from before satisfied it there. A bit that is no
    longer used is given up if it is the highest; lower ones stay, idle, until the signatures are made afresh.
    """
    wanted = [frozenset(query.predicate for query in members) for members in groups]
    used = {predicate for predicates in wanted for predicate in predicates if predicate}
    bits = list(known.predicates) if known is not None else []
    while bits and bits[-1] not in used:
        bits.pop()
    bits += sorted(used - set(bits))
    return Signatures(tuple(bits), tuple(wanted))
