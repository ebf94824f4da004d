"""What queries share, as text that a person reads: the answers to EXPLAIN SHARED and EXPLAIN QUERY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from weft.algebra import DataType, Query
from weft.algebra.types import TIMESTAMP
from weft.explain import plan_description as plan
from weft.explain.query_text import count, duration_text, number_text, query_text, some
from weft.plan.facts import CycleMeasured, Measurements

#: So much is shown of an expression that Spark gets.
_WIDEST = 160
#: How many of the last cycles are shown.
_CYCLES = 5

_SECOND = 1_000_000
#: The most nodes, families and queries that are shown; the others are counted. JSON has all of them.
_NODES = 40
_FAMILIES = 20
_QUERIES = 40
#: How many of the newest changes of an order are shown.
_CHANGES = 5


def shared_text(queries: Sequence[Query], sharing: plan.Sharing, measured: Measurements) -> str:
    """All queries: what each of them is, what they share, and how it runs."""
    if not queries:
        return "no queries"
    parts = [query_text(each) for each in queries]
    parts += ["\n".join(_stream_lines(stream, sharing, measured)) for stream in sharing.streams]
    if sharing.network.queries:
        parts.append("\n".join(_network_lines(sharing.network)))
    alone = sharing.unshared
    if alone:
        reasons = (f"  {name}: {why}" for name, why in alone.items())
        parts.append("\n".join(["neither woven nor in the network", *reasons]))
    parts.append("\n".join(_physical_lines(sharing.streams, sharing.network, alone, measured)))
    return "\n\n".join(parts)


def shared_query_text(query: Query, sharing: plan.Sharing, measured: Measurements) -> str:
    """One query: what it is, what it shares with which others, and how it runs."""
    woven = sharing.woven.get(query.name)
    network = sharing.network.within({query.name})
    alone = {name: why for name, why in sharing.unshared.items() if name == query.name}
    streams: list[plan.SharedStream] = []
    if woven is not None:
        streams = [sharing.stream(woven.stream)]
        shared = list(_query_lines(woven, streams[0], measured))
    elif query.name in network.queries:
        shared = list(_network_query_lines(network.queries[query.name], network))
    else:
        shared = [f"neither woven nor in the network: {alone[query.name]}"]
    physical = _physical_lines(streams, network, alone, measured)
    return "\n\n".join([query_text(query), "\n".join(shared), "\n".join(physical)])


# -- woven ------------------------------------------------------------------------------------------------------------


def _stream_lines(stream: plan.SharedStream, sharing: plan.Sharing, measured: Measurements) -> Iterator[str]:
    yield (
        f"stream {stream.name}: {count(stream.number_of_queries, 'query', 'queries')} woven, "
        f"{count(len(stream.cohorts), 'cohort')}, {count(len(stream.trees), 'tree')}; {_rate_text(stream)}"
    )
    if stream.planned_for is not None:
        yield f"  planned for about {_pace_text(stream.planned_for, stream.clock)}"
    yield from _reduction_lines(stream, measured.selectivities.get(stream.name, {}))
    for cohort in stream.cohorts:
        yield f"  {_cohort_text(cohort)}"
        if cohort.host is not None:
            yield f"    kernels {cohort.host}"
        for tree in cohort.trees:
            yield from (f"    {line}" for line in _tree_lines(tree, stream, sharing))
    for running in stream.running:
        yield f"  {_cohort_text(running)}, never closing: {some(running.measures)}"
        yield f"    {some(running.queries)}"


def _pace_text(planned: plan.PlannedFor, clock: DataType) -> str:
    keys = [f"{count(number, 'key')} by {name}" for name, number in planned.keys.items()]
    if planned.rows_per_tick is None or planned.ticks_per_cycle is None:
        return some(keys)
    length, unit = (_SECOND, "seconds") if clock == TIMESTAMP else (1, "ticks")
    cycles = f"cycles of {number_text(planned.ticks_per_cycle / length)} {unit}"
    return some([_per(planned.rows_per_tick, "rows", clock), cycles, *keys])


def _rate_text(stream: plan.SharedStream) -> str:
    return "not run yet" if stream.rate is None else f"{_per(stream.rate, 'rows', stream.clock)} of its clock"


def _reduction_lines(stream: plan.SharedStream, selectivities: Mapping[str, float]) -> Iterator[str]:
    reduction, clock = stream.reduction, stream.clock
    edges = some([_edge(*each, clock) for each in reduction.edges])
    cut = f"cells cut at {edges}; {_per(reduction.edge_rate, 'cells', clock)}"
    yield f"  reduction: {cut if reduction.edges else 'time is not cut'}"
    if reduction.conditions:
        columns = count(reduction.signature_columns, "signature column")
        shares = [
            f"{each} ({100 * selectivities[each]:.3g} % of rows)" if each in selectivities else each
            for each in reduction.conditions
        ]
        yield f"    {count(len(shares), 'condition')} in {columns}: {some(shares)}"
    yield f"    {count(len(reduction.keys), 'key')}{_listed(reduction.keys)}"
    yield f"    {count(len(reduction.aggregates), 'aggregate')}{_listed(reduction.aggregates)}"


def _edge(modulus: int, residue: int, clock: DataType) -> str:
    every = f"every {duration_text(modulus, clock)}"
    return f"{every} from {duration_text(residue, clock)} on" if residue else every


def _cohort_text(cohort: plan.Cohort | plan.RunningCohort) -> str:
    rows = f"where {' AND '.join(cohort.conditions)}" if cohort.conditions else "of all rows"
    return f"cohort {rows}, by {', '.join(cohort.keys) or 'nothing'}"


def _tree_lines(tree: plan.SharedTree, stream: plan.SharedStream, sharing: plan.Sharing) -> Iterator[str]:
    clock = stream.clock
    yield f"tree {tree.number}: {_windows(tree)}; {_per(tree.edge_rate, 'slices', clock)}"
    yield from _kernel_lines(tree)
    yield from (f"  {name} {_costs(sharing.woven[name], stream)}" for name in tree.queries)
    if tree.apart is not None:
        yield f"  {_apart_text(tree.apart, clock)}"


def _kernel_lines(tree: plan.SharedTree) -> Iterator[str]:
    return (f"  {each.measure} in {each.kernel}: {each.reason}" for each in tree.kernels)


def _windows(tree: plan.SharedTree) -> str:
    return some([each["text"] for each in tree.windows])


def _costs(woven: plan.WovenQuery, stream: plan.SharedStream) -> str:
    """What a query costs, shared and alone; reading rows is listed apart as long as their rate is unknown."""
    cost, alone = _per(woven.cost, "nanoseconds", stream.clock), number_text(_scaled(woven.alone or 0, stream.clock))
    part = Fraction(1, stream.number_of_queries)
    if stream.rate is not None:
        rows = number_text(_scaled(stream.rate * plan.ROW * part, stream.clock))
        return f"costs {cost}, {rows} of them for reading rows, instead of {alone} alone"
    reading = f"{part} of reading the rows" if part < 1 else "reading the rows"
    return f"costs {cost} and {reading}; alone {alone} and reading the rows"


def _apart_text(apart: plan.Apart, clock: DataType) -> str:
    if apart.saved is None or apart.added is None:
        return f"apart from tree {apart.tree}: {apart.reason}"
    saved, added = _per(apart.saved, "nanoseconds", clock), number_text(_scaled(apart.added, clock))
    why = f"; {apart.reason}" if apart.added < apart.saved else ""
    return f"apart from tree {apart.tree}: one tree would save {saved} in reading and cost {added} more{why}"


def _query_lines(woven: plan.WovenQuery, stream: plan.SharedStream, measured: Measurements) -> Iterator[str]:
    tree = woven.tree
    if isinstance(tree, plan.RunningCohort):
        yield from _running_query_lines(woven, tree, stream)
        return
    cohort = next(each for each in stream.cohorts if tree in each.trees)
    in_cohort = sum(len(each.queries) for each in cohort.trees) - 1
    yield f"woven over stream {stream.name}: tree {tree.number} of {count(len(stream.trees), 'tree')}"
    yield f"  {_cohort_text(cohort)}"
    if cohort.host is not None:
        yield f"  kernels {cohort.host}"
    yield f"  windows {_windows(tree)}; {_per(tree.edge_rate, 'slices', stream.clock)}"
    yield f"  shares the tree with {_others(woven.companions)}"
    yield f"  shares the cohort with {_other_queries(in_cohort)}"
    yield _reduction_shared(stream)
    yield from _kernel_lines(tree)
    yield f"  {_costs(woven, stream)}"
    weaving = [each.stages["weave"] for each in measured.cycles[-_CYCLES:] if "weave" in each.stages]
    if weaving:
        mean = sum(weaving) / len(weaving)
        yield f"  measured: all trees of all streams together took {mean:.3f} s of a cycle, over {len(weaving)} of them"
    if tree.apart is not None:
        yield f"  {_apart_text(tree.apart, stream.clock)}"


def _running_query_lines(
    query: plan.WovenQuery, cohort: plan.RunningCohort, stream: plan.SharedStream
) -> Iterator[str]:
    yield f"woven over stream {stream.name}: groups that grow and never close"
    yield f"  {_cohort_text(cohort)}"
    yield f"  keeps of each group: {some(cohort.measures)}"
    yield f"  shares the groups with those that began in the same cycle, of {_others(query.companions)}"
    yield _reduction_shared(stream)


def _reduction_shared(stream: plan.SharedStream) -> str:
    return f"  shares the reduction with {_other_queries(stream.number_of_queries - 1)}; {_rate_text(stream)}"


# -- network ----------------------------------------------------------------------------------------------------------


def _network_lines(network: plan.SharedNetwork) -> Iterator[str]:
    """The network: the nodes that most queries share, families, and what each query costs."""
    kinds = ", ".join(
        count(network.count(kind), kind) for kind in (plan.LOG, plan.SELECTION, plan.JOIN) if network.count(kind)
    )
    yield (
        f"network: {count(len(network.queries), 'query', 'queries')}, {count(len(network.nodes), 'node')} ({kinds}); "
        f"looks at {network.cost:,} rows"
    )
    order = {number: position for position, number in enumerate(network.nodes)}
    # What is below one of the nodes that most queries need is among them.
    ranked = sorted(network.nodes.values(), key=lambda node: (-len(node.queries), order[node.number]))
    for node in sorted(ranked[:_NODES], key=lambda node: order[node.number]):
        yield from (f"  {line}" for line in _node_lines(node))
    yield from _left_out(len(network.nodes) - _NODES, "node")
    for family in network.families[:_FAMILIES]:
        yield f"  {_family_text(family)}"
    yield from _left_out(len(network.families) - _FAMILIES, "family of joins", "families of joins")
    for query in list(network.queries.values())[:_QUERIES]:
        rest = "" if query.beside is None else f"; the rest of it: {query.beside}"
        yield f"  {query.name} {_answered(query)}; {_rows_looked_at(query)}{rest}"
        yield from _own_lines(query)
        yield from (f"    {_order_text(order)}" for order in query.orders)
    yield from _left_out(len(network.queries) - _QUERIES, "query", "queries")


def _network_query_lines(query: plan.NetworkQuery, network: plan.SharedNetwork) -> Iterator[str]:
    """One query: its nodes from the logs up, what it shares with which others, its cost, and why it shares no more."""
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
    with_nodes = [f"{name} (node {', '.join(map(str, numbers))})" for name, numbers in companions.items()]
    yield f"  shares nodes above logs with {_others(with_nodes)}"
    own = [number for number in query.own if network.nodes[number].parents]
    yield f"  has to itself {count(len(own), 'node')} above logs{_listed(list(map(str, own)))}"
    yield from _own_lines(query)
    yield f"  {_rows_looked_at(query)}"


def _node_lines(node: plan.SharedNode) -> Iterator[str]:
    yield f"node {node.number}, level {node.level}: {_made_of(node)}"
    if node.equations:
        yield f"  on {' AND '.join(node.equations)}"
    if node.conditions:
        yield f"  where {' AND '.join(node.conditions)}"
    measured = "" if node.measured is None else f", {node.measured:,} kept"
    yield f"  gives {some(node.columns) or 'nothing but its clock'}; {count(node.rows, 'row')} expected{measured}"
    shared = f"shared by {len(node.queries):,} queries" if node.is_shared else "for one query"
    yield f"  {shared}{_listed(node.queries)}"


def _made_of(node: plan.SharedNode) -> str:
    if node.kind == plan.LOG:
        return node.title
    late = ", without rows that come too late" if node.timely else ""
    if node.kind == plan.SELECTION:
        return f"selection of node {node.parents[0]}{late}"
    left, right = node.parents
    names = ", ".join(node.legs)
    return f"join of node {left} with {'itself' if left == right else f'node {right}'}, as {names}{late}"


def _family_text(family: plan.JoinFamily) -> str:
    keys = " AND ".join(family.equations) or "time alone"
    kept = "" if family.kept is None else f"; {count(family.kept, 'row')} kept"
    selections = f" and {count(len(family.selections), 'selection')}" if family.selections else ""
    return (
        f"family of joins of {', '.join(family.inputs)} on {keys}: "
        f"{count(len(family.joins), 'join')}{selections} in one look-up{kept}"
    )


def _order_lines(order: plan.JoinOrder) -> Iterator[str]:
    """An order, what was measured that it follows from, and its changes."""
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


def _order_text(order: plan.JoinOrder) -> str:
    text = f"joined in the order {order.order}"
    if order.cost is None or order.best_cost is None:
        return f"{text}, as supposed: no cycle has told anything yet"
    if order.best == order.order:
        return f"{text}: {order.cost:,} rows, the best that is known of"
    return f"{text}: {order.cost:,} rows; {order.best} would take {order.best_cost:,}"


def _seen_text(seen: Mapping[str, float]) -> str:
    return "; ".join(f"{what}: {f'{n:,.0f}' if n > 1 else f'{100 * n:.3g} %'}" for what, n in seen.items())


def _own_lines(query: plan.NetworkQuery) -> Iterator[str]:
    return (f"    node {why.node} is its own: {why.reason}" for why in query.not_shared)


def _answered(query: plan.NetworkQuery) -> str:
    nodes = [f"node {each.node}" + (f" ({', '.join(each.inputs)})" if each.inputs else "") for each in query.answers]
    return f"{'answered by' if query.beside is None else 'reads'} {' and '.join(nodes)}"


def _rows_looked_at(query: plan.NetworkQuery) -> str:
    alone = "" if query.alone is None else f" instead of {query.alone:,} alone"
    return f"looks at {number_text(query.cost)} rows{alone}"


def _left_out(number: int, one: str, many: str = "") -> Iterator[str]:
    if number > 0:
        yield f"  … and {count(number, one, many)} more: FORMAT JSON has all of them"


# -- physical ---------------------------------------------------------------------------------------------------------


def _physical_lines(
    streams: Sequence[plan.SharedStream], network: plan.SharedNetwork, alone: Mapping[str, str], measured: Measurements
) -> Iterator[str]:
    yield "physical"
    for stream in streams:
        yield f"  one Spark job in a cycle reduces the rows of {stream.name}:"
        for line in stream.reduction.sql.split("\n"):
            yield f"    {line if len(line) <= 2 * _WIDEST else f'{line[:_WIDEST]} … {line[-_WIDEST // 2 :]}'}"
    if network.queries:
        joins = count(len(network.families), "family of joins", "families of joins")
        look = "looks" if len(network.families) == 1 else "look"
        found = f", and {joins} {look} up in the driver what is kept, or in one more job a level if that is too much"
        logs = count(network.count(plan.LOG), "log")
        yield f"  the network: one Spark job in a cycle takes the new rows of {logs}{found if network.families else ''}"
    if alone:
        yield (
            f"  {count(len(alone), 'query', 'queries')} outside of both: in a cycle one Spark job writes the rows that "
            "arrive, and what Spark evaluates by itself takes one more job, and others for what it keeps"
        )
    if measured.cycles:
        yield "  the last cycles, in seconds:"
        yield from (f"    {line}" for line in _cycle_lines(measured.cycles[-_CYCLES:]))
    else:
        yield "  no cycle has been measured yet"


def _cycle_lines(cycles: Sequence[CycleMeasured]) -> Iterator[str]:
    stages = list(dict.fromkeys(stage for each in cycles for stage in each.stages))
    table = [["cycle", "rows", "answers", "jobs", "all", *stages]]
    for each in cycles:
        rows = sum(stream.rows for stream in each.streams.values())
        jobs = "?" if each.jobs is None else str(each.jobs)
        times = [f"{each.stages[stage]:.3f}" if stage in each.stages else "-" for stage in stages]
        table.append([str(each.cycle), str(rows), str(each.answers), jobs, f"{each.seconds:.3f}", *times])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


# -- words ------------------------------------------------------------------------------------------------------------


def _scaled(per_tick: Fraction | int, clock: DataType) -> Fraction:
    return Fraction(per_tick * _SECOND if clock == TIMESTAMP else per_tick)


def _per(per_tick: Fraction, what: str, clock: DataType) -> str:
    """A rate in a unit for people: per second, or per row of an ordinal clock."""
    return f"{number_text(_scaled(per_tick, clock))} {what} per {'second' if clock == TIMESTAMP else 'tick'}"


def _other_queries(number: int) -> str:
    return "no other query" if not number else count(number, "other query", "other queries")


def _others(names: Sequence[str]) -> str:
    return f"{_other_queries(len(names))}{_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return f": {some(names)}" if names else ""
