"""The network as text that a person reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.explain.words import count, listed, number_text, other_queries, some
from weft.plan.shared_network import (
    JOIN,
    LOG,
    SELECTION,
    JoinFamily,
    JoinOrder,
    NetworkQuery,
    NotShared,
    SharedNetwork,
    SharedNode,
)

#: So many nodes, families and queries are shown; the others are counted. JSON has all of them.
_NODES = 40
_FAMILIES = 20
_QUERIES = 40
#: So many of the newest changes of an order are shown.
_CHANGES = 5


def network_lines(network: SharedNetwork) -> Iterator[str]:
    """All of it: the nodes that most queries share, families, and what each query costs."""
    kinds = ", ".join(count(network.count(kind), kind) for kind in (LOG, SELECTION, JOIN) if network.count(kind))
    yield (
        f"network: {count(len(network.queries), 'query', 'queries')}, {count(len(network.nodes), 'node')} ({kinds}); "
        f"looks at {network.cost:,} rows"
    )
    for node in most_shared(network, _NODES):
        yield from (f"  {line}" for line in _node_lines(node))
    yield from _left_out(len(network.nodes) - _NODES, "node")
    for family in network.families[:_FAMILIES]:
        yield f"  {_family_text(family)}"
    yield from _left_out(len(network.families) - _FAMILIES, "family of joins", "families of joins")
    for query in list(network.queries.values())[:_QUERIES]:
        rest = "" if query.beside is None else f"; the rest of it: {query.beside}"
        yield f"  {query.name} {_answered(query)}; {_costs(query)}{rest}"
        yield from (f"    {_why_text(why)}" for why in query.not_shared)
        yield from (f"    {_order_text(order)}" for order in query.orders)
    yield from _left_out(len(network.queries) - _QUERIES, "query", "queries")


def most_shared(network: SharedNetwork, most: int) -> list[SharedNode]:
    """The nodes that most queries need, in the order of the network. What is below one of them is among them."""
    order = {number: position for position, number in enumerate(network.nodes)}
    ranked = sorted(network.nodes.values(), key=lambda node: (-len(node.queries), order[node.number]))
    return sorted(ranked[:most], key=lambda node: order[node.number])


def network_query_lines(query: NetworkQuery, network: SharedNetwork) -> Iterator[str]:
    """One query: its nodes from the logs up, what it shares with whom, what it costs, and why it shares no more."""
    yield f"in the network: {_answered(query)}"
    if query.beside is not None:
        yield f"  the rest of it: {query.beside}"
    for number in query.nodes:
        yield from (f"  {line}" for line in _node_lines(network.nodes[number]))
    for family in network.families:
        mine = [number for number in query.nodes if number in family.joins]
        if mine:
            yield f"  node {', '.join(map(str, mine))} in a {_family_text(family)}"
    for order in query.orders:
        yield from (f"  {line}" for line in _order_lines(order))
    companions = network.companions(query.name)
    told = [f"{name} (node {', '.join(map(str, numbers))})" for name, numbers in companions.items()]
    yield f"  shares nodes above logs with {other_queries(len(companions))}{listed(told)}"
    own = [number for number in query.own if network.nodes[number].parents]
    yield f"  has to itself {count(len(own), 'node')} above logs{listed(list(map(str, own)))}"
    yield from (f"    {_why_text(why)}" for why in query.not_shared)
    yield f"  {_costs(query)}"


def _node_lines(node: SharedNode) -> Iterator[str]:
    yield f"node {node.number}, level {node.level}: {_made_of(node)}"
    if node.equations:
        yield f"  on {' AND '.join(node.equations)}"
    if node.conditions:
        yield f"  where {' AND '.join(node.conditions)}"
    measured = "" if node.measured is None else f", {node.measured:,} kept"
    yield f"  gives {some(node.columns) or 'nothing but its clock'}; {count(node.rows, 'row')} expected{measured}"
    shared = f"shared by {len(node.queries):,} queries" if node.is_shared else "for one query"
    yield f"  {shared}{listed(node.queries)}"


def _made_of(node: SharedNode) -> str:
    if node.kind == LOG:
        return node.title
    late = ", without rows that come too late" if node.timely else ""
    if node.kind == SELECTION:
        return f"selection of node {node.parents[0]}{late}"
    left, right = node.parents
    names = ", ".join(node.legs)
    return f"join of node {left} with {'itself' if left == right else f'node {right}'}, as {names}{late}"


def _family_text(family: JoinFamily) -> str:
    keys = " AND ".join(family.equations) or "time alone"
    kept = "" if family.kept is None else f"; {count(family.kept, 'row')} kept"
    selections = f" and {count(len(family.selections), 'selection')}" if family.selections else ""
    return (
        f"family of joins of {', '.join(family.inputs)} on {keys}: "
        f"{count(len(family.joins), 'join')}{selections} in one look-up{kept}"
    )


def _order_lines(order: JoinOrder) -> Iterator[str]:
    """An order, what was seen that speaks for it, and how it came to be."""
    yield _order_text(order)
    if order.seen:
        yield f"  seen: {_seen_text(order.seen)}"
    for each in order.history[-_CHANGES:]:
        if each.before == each.after:
            change = f"still {each.after}, with other selections below it"
        else:
            change = f"from {each.before}, for {each.cost_before:,} rows, to {each.after}, for {each.cost_after:,}"
        yield f"  chosen anew before cycle {each.cycle}: {change}"
        if each.seen:
            yield f"    seen then: {_seen_text(each.seen)}"


def _order_text(order: JoinOrder) -> str:
    told = f"joined in the order {order.order}"
    if order.cost is None or order.best_cost is None:
        return f"{told}, as supposed: no cycle has told anything yet"
    if order.best == order.order:
        return f"{told}: {order.cost:,} rows, the best that is known of"
    return f"{told}: {order.cost:,} rows; {order.best} would take {order.best_cost:,}"


def _seen_text(seen: Sequence[tuple[str, float]]) -> str:
    return "; ".join(f"{what}: {value:,.0f}" if value > 1 else f"{what}: {100 * value:.3g} %" for what, value in seen)


def _answered(query: NetworkQuery) -> str:
    told = []
    for node, names in query.answers:
        called = f" ({', '.join(names)})" if names else ""
        told.append(f"node {node}{called}")
    return f"answered by {' and '.join(told)}" if query.beside is None else f"reads {' and '.join(told)}"


def _costs(query: NetworkQuery) -> str:
    alone = "" if query.alone is None else f" instead of {query.alone:,} alone"
    return f"looks at {number_text(query.cost)} rows{alone}"


def _why_text(why: NotShared) -> str:
    return f"node {why.node} is its own: {why.reason}"


def _left_out(number: int, one: str, many: str = "") -> Iterator[str]:
    if number > 0:
        yield f"  … and {count(number, one, many)} more: FORMAT JSON has all of them"
