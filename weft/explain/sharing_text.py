"""What queries share, as text that a person reads: the answers to EXPLAIN SHARED and EXPLAIN QUERY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from weft.algebra import DataType, Query
from weft.algebra.types import TIMESTAMP
from weft.explain.network_text import network_lines, network_query_lines
from weft.explain.words import count, listed, number_text, other_queries, some
from weft.plan.shared_network import LOG, SharedNetwork
from weft.plan.sharing import (
    ROW,
    Apart,
    Cohort,
    CycleMeasured,
    Measured,
    PlannedFor,
    RunningAggregateQuery,
    RunningCohort,
    SharedReduction,
    SharedStream,
    SharedTree,
    Sharing,
    WovenQuery,
)
from weft.plan.text import duration_text, query_text, window_text

#: So much is shown of an expression that Spark gets.
_WIDEST = 160
#: So many of the last cycles are shown.
_CYCLES = 5

_SECOND = 1_000_000


def shared_text(queries: Sequence[Query], sharing: Sharing, measured: Measured) -> str:
    """Everything: each query by itself, what they share, and how it runs."""
    if not queries:
        return "no queries"
    parts = [query_text(each) for each in queries]
    parts += ["\n".join(_stream_lines(stream, sharing, measured)) for stream in sharing.streams]
    if sharing.network.queries:
        parts.append("\n".join(network_lines(sharing.network)))
    alone = sharing.by_themselves
    if alone:
        told = (f"  {name}: {why}" for name, why in alone.items())
        parts.append("\n".join(["neither woven nor in the network", *told]))
    parts.append("\n".join(_physical_lines(sharing.streams, sharing.network, alone, measured)))
    return "\n\n".join(parts)


def shared_query_text(query: Query, sharing: Sharing, measured: Measured) -> str:
    """One query: by itself, what it shares with whom, and how it runs."""
    woven, running = sharing.woven.get(query.name), sharing.running.get(query.name)
    streams: list[SharedStream] = []
    alone, network = sharing.by_themselves, sharing.network.within({query.name})
    if woven is not None:
        streams = [sharing.stream(woven.stream)]
        shared = list(_query_lines(woven, streams[0], measured))
    elif running is not None:
        streams = [sharing.stream(running.stream)]
        shared = list(_running_query_lines(running, streams[0]))
    elif query.name in network.queries:
        shared = list(network_query_lines(network.queries[query.name], network))
    else:
        shared = [f"neither woven nor in the network: {alone[query.name]}"]
    alone = {name: why for name, why in alone.items() if name == query.name}
    physical = _physical_lines(streams, network, alone, measured)
    return "\n\n".join([query_text(query), "\n".join(shared), "\n".join(physical)])


# -- woven ------------------------------------------------------------------------------------------------------------


def _stream_lines(stream: SharedStream, sharing: Sharing, measured: Measured) -> Iterator[str]:
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


def _pace_text(planned: PlannedFor, clock: DataType) -> str:
    keys = [f"{number:,} {'key' if number == 1 else 'keys'} by {name}" for name, number in planned.keys.items()]
    if planned.rows_per_tick is None or planned.ticks_per_cycle is None:
        return some(keys)
    length = f"{number_text(planned.ticks_per_cycle / (_SECOND if clock == TIMESTAMP else 1))}"
    unit = "seconds" if clock == TIMESTAMP else "ticks"
    return some([_per(planned.rows_per_tick, "rows", clock), f"cycles of {length} {unit}", *keys])


def _rate_text(stream: SharedStream) -> str:
    if stream.rate is None:
        return "not run yet"
    return f"{_per(stream.rate, 'rows', stream.clock)} of its clock"


def _reduction_lines(stream: SharedStream, selectivities: Mapping[str, float]) -> Iterator[str]:
    reduction, clock = stream.reduction, stream.clock
    cut = f"cells cut at {_edges(reduction, clock)}; {_per(reduction.edge_rate, 'cells', clock)}"
    yield f"  reduction: {cut if reduction.edges else 'time is not cut'}"
    if reduction.conditions:
        columns = count(reduction.signature_columns, "signature column")
        told = [f"{each}{_selectivity(selectivities.get(each))}" for each in reduction.conditions]
        yield f"    {count(len(told), 'condition')} in {columns}: {some(told)}"
    yield f"    {count(len(reduction.keys), 'key')}{listed(reduction.keys)}"
    yield f"    {count(len(reduction.aggregates), 'aggregate')}{listed(reduction.aggregates)}"


def _edges(reduction: SharedReduction, clock: DataType) -> str:
    return some([_edge(modulus, residue, clock) for modulus, residue in reduction.edges])


def _edge(modulus: int, residue: int, clock: DataType) -> str:
    every = f"every {duration_text(modulus, clock)}"
    return f"{every} from {duration_text(residue, clock)} on" if residue else every


def _cohort_text(cohort: Cohort | RunningCohort) -> str:
    rows = f"where {' AND '.join(cohort.conditions)}" if cohort.conditions else "of all rows"
    return f"cohort {rows}, by {', '.join(cohort.keys) or 'nothing'}"


def _tree_lines(tree: SharedTree, stream: SharedStream, sharing: Sharing) -> Iterator[str]:
    clock = stream.clock
    yield f"tree {tree.number}: {_windows(tree, clock)}; {_per(tree.edge_rate, 'fragments', clock)}"
    yield from (f"  {line}" for line in _kernel_lines(tree))
    for name in tree.queries:
        woven = sharing.woven[name]
        yield f"  {name} {_costs(woven, stream)}"
    if tree.apart is not None:
        yield f"  {_apart_text(tree.apart, clock)}"


def _kernel_lines(tree: SharedTree) -> Iterator[str]:
    for each in tree.kernels:
        yield f"{each.measure} in {each.kernel}: {each.reason}"


def _windows(tree: SharedTree, clock: DataType) -> str:
    return some([window_text(each, clock) for each in tree.windows])


def _costs(woven: WovenQuery, stream: SharedStream) -> str:
    """What a query costs, and alone; as long as nobody knows how many rows come, these are told apart."""
    cost, alone = (number_text(_scaled(each, stream.clock)) for each in (woven.cost, woven.alone))
    unit = _unit("nanoseconds", stream.clock)
    part = Fraction(1, stream.number_of_queries)
    if stream.rate is not None:
        rows = number_text(_scaled(stream.rate * ROW * part, stream.clock))
        return f"costs {cost} {unit}, {rows} of them for reading rows, instead of {alone} alone"
    reading = f"{part} of reading the rows" if part < 1 else "reading the rows"
    return f"costs {cost} {unit} and {reading}; alone {alone} and reading the rows"


def _apart_text(apart: Apart, clock: DataType) -> str:
    if apart.saved is None or apart.added is None:
        return f"apart from tree {apart.tree}: {apart.reason}"
    saved, added = number_text(_scaled(apart.saved, clock)), number_text(_scaled(apart.added, clock))
    unit = _unit("nanoseconds", clock)
    why = f"; {apart.reason}" if apart.added < apart.saved else ""
    return f"apart from tree {apart.tree}: one tree would save {saved} {unit} in reading and cost {added} more{why}"


def _query_lines(woven: WovenQuery, stream: SharedStream, measured: Measured) -> Iterator[str]:
    tree = woven.tree
    cohort = next(each for each in stream.cohorts if tree in each.trees)
    reducing = stream.number_of_queries - 1
    in_cohort = sum(len(each.queries) for each in cohort.trees) - 1
    yield f"woven over stream {stream.name}: tree {tree.number} of {count(len(stream.trees), 'tree')}"
    yield f"  {_cohort_text(cohort)}"
    if cohort.host is not None:
        yield f"  kernels {cohort.host}"
    yield f"  windows {_windows(tree, stream.clock)}; {_per(tree.edge_rate, 'fragments', stream.clock)}"
    yield f"  shares the tree with {other_queries(len(woven.companions))}{listed(woven.companions)}"
    yield f"  shares the cohort with {other_queries(in_cohort)}"
    yield f"  shares the reduction with {other_queries(reducing)}; {_rate_text(stream)}"
    yield from (f"  {line}" for line in _kernel_lines(tree))
    yield f"  {_costs(woven, stream)}"
    weaving = [each.stages["weave"] for each in measured.cycles[-_CYCLES:] if "weave" in each.stages]
    if weaving:
        mean = sum(weaving) / len(weaving)
        yield f"  measured: all trees of all streams together took {mean:.3f} s of a cycle, over {len(weaving)} of them"
    if tree.apart is not None:
        yield f"  {_apart_text(tree.apart, stream.clock)}"


def _running_query_lines(query: RunningAggregateQuery, stream: SharedStream) -> Iterator[str]:
    others = [name for name in query.cohort.queries if name != query.name]
    told = f"{other_queries(len(others))}{listed(others)}"
    yield f"woven over stream {stream.name}: groups that grow and never close"
    yield f"  {_cohort_text(query.cohort)}"
    yield f"  keeps of each group: {some(query.cohort.measures)}"
    yield f"  shares the groups with those that began in the same cycle, of {told}"
    yield f"  shares the reduction with {other_queries(stream.number_of_queries - 1)}; {_rate_text(stream)}"


# -- physical ---------------------------------------------------------------------------------------------------------


def _physical_lines(
    streams: Sequence[SharedStream], network: SharedNetwork, alone: Mapping[str, str], measured: Measured
) -> Iterator[str]:
    yield "physical"
    for stream in streams:
        yield f"  one Spark job in a cycle reduces the rows of {stream.name}:"
        yield from (f"    {_short(line)}" for line in stream.reduction.sql.split("\n"))
    if network.queries:
        joins = count(len(network.families), "family of joins", "families of joins")
        look = "looks" if len(network.families) == 1 else "look"
        found = f", and {joins} {look} up in the driver what is kept, or in one more job a level if that is too much"
        logs = count(network.count(LOG), "log")
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


def _scaled(per_tick: Fraction, clock: DataType) -> Fraction:
    return per_tick * _SECOND if clock == TIMESTAMP else per_tick


def _per(per_tick: Fraction, what: str, clock: DataType) -> str:
    """A rate in the unit that people think in: per second, or per row of an ordinal clock."""
    return f"{number_text(_scaled(per_tick, clock))} {_unit(what, clock)}"


def _unit(what: str, clock: DataType) -> str:
    return f"{what} per {'second' if clock == TIMESTAMP else 'tick'}"


def _selectivity(share: float | None) -> str:
    return "" if share is None else f" ({100 * share:.3g} % of rows)"


def _short(line: str) -> str:
    if len(line) <= 2 * _WIDEST:
        return line
    return f"{line[:_WIDEST]} … {line[-_WIDEST // 2 :]}"


__all__ = ["shared_query_text", "shared_text"]
