"""EXPLAIN for woven plans: what each query shares, what it would cost alone, and why it shares no more.

A group is held against the group it goes best with. Merging the two would save reading (λ, or E with three levels) and
add to final aggregation; they are apart because the second is not less than the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weft.optimizer.acq import Acq, demands_of
from weft.optimizer.edge_meter import TooLongError, estimating_meter, exact_meter
from weft.optimizer.plan_cost import Levels, reading_cost
from weft.optimizer.trees import Trees
from weft.optimizer.woven_plan import PartitionGroup, WovenPlan

# So many members of a group are named; the others are counted.
_NAMED = 8


@dataclass(frozen=True, slots=True)
class NearestNeighbour:
    """The group that a group goes best with, and why they are two."""

    group: int
    saved: Fraction
    """What one group less would save in reading, per tick."""
    added: Fraction
    """What the two groups' final aggregation would cost more, together."""
    weaveability: Fraction
    """Common edges as a share of all edges of the two."""

    def __str__(self) -> str:
        return (
            f"not merged with group {self.group}: that would save {_number(self.saved)} and cost {_number(self.added)}"
            f" more (weaveability {_number(self.weaveability)})"
        )


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """What EXPLAIN says of one query."""

    name: str
    query: Acq
    group: int
    companions: int
    """How many other queries share its tree."""
    alone: Fraction
    """What it would cost per tick in a plan of its own, reading included."""
    share: Fraction
    """Its part of its group's cost, divided in proportion to what the members would cost alone."""


def nearest_neighbours(plan: WovenPlan, of: Sequence[int] | None = None) -> dict[int, NearestNeighbour]:
    """For each group (of those asked for), the group it would best be merged with; none in a plan of one group."""
    if len(plan.groups) < 2:
        return {}
    wanted = of if of is not None else range(len(plan.groups))
    try:
        return _nearest(plan, wanted, exact=plan.exact)
    except TooLongError:
        return _nearest(plan, wanted, exact=False)


def explain_query(plan: WovenPlan, query: Acq, name: str = "") -> QueryExplanation:
    """What there is to say of one query."""
    number = plan.number_of(query)
    group = plan.groups[number]
    return QueryExplanation(
        name or described(query),
        query,
        number,
        group.number_of_queries - 1,
        plan.rate * plan.costing.row + group.finals_alone[query],
        _share(plan, group, query),
    )


def explain(plan: WovenPlan, names: Mapping[str, Acq] | None = None) -> str:
    """The plan as text: groups with their edges and kernels, and every query that has a name.

    Without names, the different queries of each group are shown, up to a few.
    """
    lines = [_headline(plan)]
    neighbours = nearest_neighbours(plan)
    named = _named(plan, names)
    for number, group in enumerate(plan.groups):
        lines.append(f"group {number}: {_plural(group.number_of_queries, 'query', 'queries')}, {_cut(group)}")
        for lane, kernel in sorted(group.kernels.items(), key=str):
            of = f" where {lane.predicate}" if lane.predicate else ""
            by = f" by {', '.join(sorted(lane.group_by))}" if lane.group_by else ""
            lines.append(f"  {lane.measure.name}{of}{by}: {kernel}")
        for name, query in named.get(number, [])[:_NAMED]:
            said = explain_query(plan, query, name)
            lines.append(
                f"  {said.name}: with {_plural(said.companions, 'other', 'others')}, "
                f"costs {_number(said.share)} instead of {_number(said.alone)} alone"
            )
        more = len(named.get(number, [])) - _NAMED
        if more > 0:
            lines.append(f"  … and {more:,} more")
        if number in neighbours:
            lines.append(f"  {neighbours[number]}")
    return "\n".join(lines)


def explain_json(plan: WovenPlan, names: Mapping[str, Acq] | None = None) -> dict[str, Any]:
    """The same for programs. Fractions are text, as in `7/10`, so that nothing is lost."""
    neighbours = nearest_neighbours(plan)
    return {
        "cost": str(plan.cost),
        "rate": str(plan.rate),
        "levels": plan.levels.value,
        "costing": plan.costing.name,
        "union_rate": str(plan.union_rate),
        "edge_rates": "exact" if plan.exact else "estimated",
        "groups": [
            {
                "number": number,
                "queries": group.number_of_queries,
                "edges": sorted([edge.modulus, edge.residue] for edge in group.edges),
                "edge_rate": str(group.edge_rate),
                "final_cost": str(group.final_cost),
                "kernels": [
                    {
                        "measure": lane.measure.name,
                        "group_by": sorted(lane.group_by),
                        "predicate": lane.predicate,
                        "kernel": kernel,
                    }
                    for lane, kernel in sorted(group.kernels.items(), key=str)
                ],
                "nearest": _as_json(neighbours.get(number)),
            }
            for number, group in enumerate(plan.groups)
        ],
        "queries": [
            _query_as_json(explain_query(plan, query, name))
            for queries in _named(plan, names).values()
            for name, query in queries
        ],
    }


def described(query: Acq) -> str:
    """A query in a few words.

    >>> from weft.algebra import Window
    >>> described(Acq(Window(60, 10)))
    'aggregate over 60 every 10'
    """
    window = query.window
    origin = f" from {window.origin}" if window.origin else ""
    measures = ", ".join(measure.name for measure in sorted(query.measures))
    by = f" by {', '.join(sorted(query.group_by))}" if query.group_by else ""
    where = f" where {query.predicate}" if query.predicate else ""
    return f"{measures}{by}{where} over {window.range} every {window.slide}{origin}"


def _headline(plan: WovenPlan) -> str:
    estimated = (
        "" if plan.exact else "; edge rates are estimated: too many unrelated slides to count their edges exactly"
    )
    intercede = f", finest cut {_number(plan.union_rate)} edges per tick" if plan.levels is Levels.THREE else ""
    return (
        f"{_plural(plan.number_of_queries, 'query', 'queries')} in {_plural(len(plan.groups), 'group', 'groups')}, "
        f"{plan.levels.value}, {_number(plan.rate)} rows per tick{intercede}: "
        f"costs {_number(plan.cost)} per tick ({plan.costing.name}){estimated}"
    )


def _cut(group: PartitionGroup) -> str:
    shown = sorted(group.edges)[:4]
    edges = ", ".join(f"{residue} mod {modulus}" for modulus, residue in shown)
    more = f" and {len(group.edges) - len(shown)} more" if len(group.edges) > len(shown) else ""
    rate, cost = _number(group.edge_rate), _number(group.final_cost)
    return f"cut at {edges}{more} ({rate} per tick), final aggregation {cost}"


def _named(plan: WovenPlan, names: Mapping[str, Acq] | None) -> dict[int, list[tuple[str, Acq]]]:
    by_group: dict[int, list[tuple[str, Acq]]] = {}
    if names is None:
        for number, group in enumerate(plan.groups):
            by_group[number] = [(described(query), query) for query in group.members]
    else:
        for name, query in names.items():
            by_group.setdefault(plan.number_of(query), []).append((name, query))
    return by_group


def _nearest(plan: WovenPlan, wanted: Sequence[int], *, exact: bool) -> dict[int, NearestNeighbour]:
    edges = [group.edges for group in plan.groups]
    trees = Trees(plan.costing, (exact_meter(edges) if exact else None) or estimating_meter(edges))
    for group in plan.groups:
        trees.add(group.edges, demands_of(group.members))
    groups = len(plan.groups)
    now, then = (reading_cost(m, plan.rate, plan.union_rate, plan.levels, plan.costing) for m in (groups, groups - 1))
    found = {}
    for number in wanted:
        others = [other for other in range(groups) if other != number]
        benefits, _ = trees.benefits(number, others, trees.rates_together(number, others))
        nearest = others[int(benefits.argmax())]
        union = trees.meter.rate_together(number, nearest)
        common = trees.known[number].edge_rate + trees.known[nearest].edge_rate - union
        added = -trees.exact_benefit(number, nearest)
        found[number] = NearestNeighbour(nearest, now - then, added, common / union)
    return found


def _share(plan: WovenPlan, group: PartitionGroup, query: Acq) -> Fraction:
    """Reading is divided evenly among the group's queries, final aggregation by what each would need alone."""
    reading = reading_cost(len(plan.groups), plan.rate, plan.union_rate, plan.levels, plan.costing) / len(plan.groups)
    alone = group.final_alone
    part = group.finals_alone[query] / alone if alone else Fraction(1, group.number_of_queries)
    return reading / group.number_of_queries + group.final_cost * part


def _query_as_json(said: QueryExplanation) -> dict[str, Any]:
    window = said.query.window
    return {
        "name": said.name,
        "range": window.range,
        "slide": window.slide,
        "origin": window.origin,
        "group": said.group,
        "companions": said.companions,
        "alone": str(said.alone),
        "share": str(said.share),
    }


def _as_json(nearest: NearestNeighbour | None) -> dict[str, Any] | None:
    if nearest is None:
        return None
    return {
        "group": nearest.group,
        "saved": str(nearest.saved),
        "added": str(nearest.added),
        "weaveability": str(nearest.weaveability),
    }


def _number(value: Fraction) -> str:
    return f"{float(value):.6g}"


def _plural(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
