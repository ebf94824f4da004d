"""Why a query is where it is, in words and figures."""

from __future__ import annotations

import numpy as np

from weft.federation.coordinator import Coordinator
from weft.federation.coordinators import coordinators_above
from weft.federation.decisions import Decision, Plan
from weft.federation.model.edge_cut import counts, loads


def explained(coordinator: Coordinator, query: str, others: int = 3) -> str:
    """Why a query runs where it runs: what it reads and shares, and what it would cost at the next best providers."""
    network, substreams, queries = coordinator.network, coordinator.substreams, coordinator.queries
    number, here = coordinator.names.index(query), coordinator.provider_of(query)
    provider, wanted = network.number[here], queries.interest(coordinator.names.index(query))
    rate = substreams.rate[wanted]
    beside = counts(queries, coordinator.placement, len(substreams), len(network.providers))[wanted, provider] - 1
    neighbours = np.flatnonzero(coordinator.placement == provider)
    sharing = sum(
        bool(np.intersect1d(queries.interest(int(each)), wanted, assume_unique=True).size)
        for each in neighbours
        if each != number
    )
    load = loads(queries, coordinator.placement, len(network.providers))
    above = [network.providers[each.leader] for each in coordinators_above(coordinator.tree, provider)]
    lines = [
        f"{query} runs at {here}; its user is at {network.providers[queries.home[number]]}",
        f"  under      {' > '.join(above) or 'nobody: the provider has left'}",
        f"  reads      {rate.sum():,.0f} bytes/s, {len(wanted)} substreams",
        f"  shares     {rate[beside > 0].sum():,.0f} bytes/s of it with {sharing} of {len(neighbours) - 1} neighbours",
        f"  load       {queries.load[number]:.4g} of {load[provider]:.4g} there",
    ]
    costs = coordinator.costs(query)
    lines.append(f"  costs      {costs[provider]:,.0f} (bytes/s × ms)")
    better = [place for place in np.argsort(costs, kind="stable") if place != provider][:others]
    for place in better:
        move = coordinator.move(query, network.providers[place])
        pays = "never pays" if move.pays_after is None else f"pays after {move.pays_after:,.0f} s"
        lines.append(
            f"  at {network.providers[place]:<8} {costs[place]:,.0f}; moving carries {move.carries:,.0f} bytes "
            f"over {move.milliseconds:.0f} ms, {pays}; load there {load[place]:.4g}"
        )
    return "\n".join(lines)


def told(decision: Decision) -> str:
    """The way of a new query from the root to its provider."""
    lines = [f"{decision.query} goes to {decision.provider}"]
    for step in decision.steps:
        listed = ", ".join(f"{each.target} {each.cost:,.0f}" for each in step.choices[:4])
        lines.append(f"  {step.coordinator} chose {step.chosen}: {listed}{' …' if len(step.choices) > 4 else ''}")
    return "\n".join(lines)


def summed_up(plan: Plan) -> str:
    """A plan in a few lines: how many move, what they carry, what that changes."""
    carried = sum(move.carries for move in plan.moves)
    return (
        f"{len(plan.moves)} queries move, {carried:,.0f} bytes of state with them\n"
        f"  edge cut   {plan.before.edge_cut:,.0f} -> {plan.after.edge_cut:,.0f} (bytes/s × ms)\n"
        f"  fullest    {plan.before.fullest:.2f} -> {plan.after.fullest:.2f} of its fair load"
    )
