"""The network as families: nodes whose rows are made alike, and so are made together.

    level 0     all selections over one log: one pass over its new rows
    level 1     all joins of the same two logs by the same equalities, and the selections over them: one join
    level n     … of two families of lower levels

A row of a family says which of its nodes it is in. What a family does grows with its distinct expressions, not with
its nodes, and its log is found again under the same name whatever queries come and go. Nodes go by numbers that follow
from what they are: two networks, drawn up at different times, mean the same rows by the same number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from weft.algebra import Call, Expression
from weft.plan.log_ids import LogId, LogKind
from weft.plan.network import Network, Node, Result
from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.literal_expressions import expression_of
from weft.predicates.terms import sources_of


@dataclass(frozen=True)
class Key:
    """An equality that holds for every row of a join: an expression over the left legs, and one over the right ones.

    The right one is over the join's own legs, as the left one is.
    """

    text: str
    left: Expression = field(compare=False)
    right: Expression = field(compare=False)


@dataclass(eq=False)
class Family:
    """Nodes over the same logs whose rows are made in one step. Without sides it is what a log gives."""

    name: LogId
    legs: tuple[LogId, ...]
    sides: tuple[Family, Family] | None = None
    keys: tuple[Key, ...] = ()
    #: By number; parents before children.
    nodes: dict[int, Member] = field(default_factory=dict)
    #: The joins that it is a side of.
    above: list[Family] = field(default_factory=list)

    @property
    def level(self) -> int:
        return 0 if self.sides is None else 1 + max(side.level for side in self.sides)

    @property
    def first_legs(self) -> tuple[int, int]:
        """Where among the legs those of each side begin."""
        assert self.sides is not None
        return 0, len(self.sides[0].legs)

    def parents(self, side: int) -> frozenset[int]:
        """The nodes of a side that the family's joins read."""
        return frozenset(each.parents[side] for each in self.nodes.values() if len(each.parents) == 2)

    @cached_property
    def feeding(self) -> tuple[int, ...]:
        """The nodes that joins above read."""
        read = {
            node
            for join in self.above
            for side, family in enumerate(join.sides or ())
            if family is self
            for node in join.parents(side)
        }
        return tuple(sorted(read))


@dataclass(frozen=True)
class Member:
    """A node in its family. `parents` has the numbers of those in the sides for a join, in the family for others."""

    number: int
    parents: tuple[int, ...]
    predicates: PredicateSet
    timely: bool


@dataclass(frozen=True)
class Families:
    """All families, lower levels first, and where each select finds its rows: the family, the node and the legs."""

    families: tuple[Family, ...]
    results: Mapping[str, tuple[Family, Result]]
    #: By number in the network: the family of each node, and the number that it goes by here.
    homes: Mapping[int, Family]
    numbers: Mapping[int, int]


def families_of(network: Network) -> Families:
    """The families of a network."""
    numbers = _numbers_by_content(network)
    families: dict[LogId, Family] = {}
    homes: dict[int, Family] = {}
    for node in network.nodes.values():
        family = homes[node.number] = _home(node, homes, families)
        parents = tuple(numbers[parent] for parent in node.parents)
        number = numbers[node.number]
        family.nodes[number] = Member(number, parents, node.predicates, node.timely)
    results = {
        place: (homes[result.node], Result(numbers[result.node], result.legs))
        for place, result in network.results.items()
    }
    ordered = sorted(families.values(), key=lambda each: (each.level, each.name))
    return Families(tuple(ordered), results, homes, numbers)


def _numbers_by_content(network: Network) -> Mapping[int, int]:
    """A number for each node that says what its rows are: the same in every plan, and after every restart."""
    contents: dict[int, bytes] = {}
    for node in network.nodes.values():
        digest = blake2b(digest_size=7)
        described = (*node.legs, node.predicates.text, str(node.timely), str(len(node.parents)))
        for part in (*(text.encode() for text in described), *(contents[parent] for parent in node.parents)):
            digest.update(len(part).to_bytes(4, "big") + part)
        contents[node.number] = digest.digest()
    return {number: int.from_bytes(content, "big") for number, content in contents.items()}


def _home(node: Node, homes: Mapping[int, Family], families: dict[LogId, Family]) -> Family:
    if node.is_base:
        return families.setdefault(node.legs[0], Family(node.legs[0], node.legs))
    if not node.is_join:
        return homes[node.parents[0]]
    left, right = homes[node.parents[0]], homes[node.parents[1]]
    keys = tuple(_keys(node.predicates, len(left.legs)))
    on = ", ".join(key.text for key in keys) or "time"
    name = LogId(LogKind.JOINED, f"({left.name}) ({right.name}) on {on}")
    if name not in families:
        families[name] = Family(name, node.legs, (left, right), keys)
        for side in {left.name: left, right.name: right}.values():
            side.above.append(families[name])
    return families[name]


def _keys(predicates: PredicateSet, left_legs: int) -> Iterator[Key]:
    left_names = frozenset(f"T{leg + 1}" for leg in range(left_legs))
    for each in predicates.disjunctions:
        if len(each.literals) != 1 or each.literals[0].operator != "=":
            continue
        compared = expression_of(each.literals[0])
        if not isinstance(compared, Call) or compared.op != "=" or compared.args[0].type != compared.args[1].type:
            continue
        for left, right in (compared.args, compared.args[::-1]):
            read = sources_of(left), sources_of(right)
            if all(read) and read[0] <= left_names and not read[1] & left_names:
                yield Key(each.text, left, right)


def hash_of(keys: Sequence[str]) -> str:
    """The values of keys as one number, in SQL; NULL if one of them is. Equal values have equal numbers."""
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    return f"CASE WHEN {present} THEN xxhash64({', '.join(keys)}) END"


def demands(family: Family, number: int) -> tuple[Disjunction, ...]:
    """All that the node of a log demands: its own predicates and those of the nodes below it."""
    member = family.nodes[number]
    below = demands(family, member.parents[0]) if member.parents else ()
    return (*below, *member.predicates.disjunctions)
