"""The shared plan as text: what each rule of the optimizer did, and the nodes with their readers and decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from weft.algebra import Query, Stream
from weft.algebra.properties import leaves
from weft.explain.query_text import count, relation_lines, some, window_text
from weft.expressions.spark_expressions import with_names
from weft.plan import nodes
from weft.plan.shared_plan import SharedPlan, diff

#: How many nodes are shown; EXPLAIN QUERY shows those of one query.
_MOST = 200


def plan_text(steps: Sequence[tuple[str, SharedPlan]], query: Query | None) -> str:
    """The plan after each rule, and the nodes of a query or of all."""
    plan = steps[-1][1]
    wanted = [node for node in plan.in_order() if query is None or query.name in plan.users_of(node.id)]
    kinds = Counter(node.kind for node in plan.nodes.values())
    head = f"plan: {count(len(plan.queries), 'query', 'queries')}, {count(len(plan.nodes), 'node')}"
    listed = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    lines = [f"{head} ({listed})" if kinds else head, "", "rules, one after the other"]
    lines += _rule_lines(steps)
    lines += ["", "nodes, each after those that it reads"]
    streams = _streams(plan)
    for node in wanted[:_MOST]:
        lines += (f"  {line}" for line in _node_lines(plan, node, streams))
    if len(wanted) > _MOST:
        lines.append(f"  … and {count(len(wanted) - _MOST, 'node')} more: EXPLAIN (VERBOSE) QUERY name shows one query")
    return "\n".join(lines)


def _rule_lines(steps: Sequence[tuple[str, SharedPlan]]) -> Iterator[str]:
    before = SharedPlan()
    width = max(len(name) for name, _ in steps)
    for number, (name, after) in enumerate(steps, start=1):
        yield f"  {number:>2} {name.ljust(width)}  {_change(before, after)}"
        before = after


def _change(before: SharedPlan, after: SharedPlan) -> str:
    """What a rule has changed."""
    if after.forms and not before.forms:
        return f"{count(len(after.forms), 'query', 'queries')} in canonical form"
    if after.forms != before.forms and after.forms:
        changed = sum(before.forms.get(name) != form for name, form in after.forms.items())
        return f"{count(changed, 'query', 'queries')} with set operators put together"
    found = diff(before, after)
    said = [
        f"{what} {_kinds(after if what != 'dropped' else before, ids)}"
        for what, ids in (("made", found.made), ("changed", found.changed), ("dropped", found.dropped))
        if ids
    ]
    relations = len(after.logical) - len(before.logical)
    if relations > 0:
        said.append(f"{count(relations, 'relation')} to be evaluated")
    elif after.logical:
        said.append(f"{count(len(after.logical), 'relation')} left")
    return "; ".join(said) if found.made or found.changed or found.dropped or relations else "no change"


def _kinds(plan: SharedPlan, ids: Iterable[str]) -> str:
    kinds = Counter(plan.nodes[id_].kind for id_ in ids)
    return ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))


def _node_lines(plan: SharedPlan, node: nodes.Node, streams: Mapping[str, Stream]) -> Iterator[str]:
    users = sorted(plan.users_of(node.id))
    reads = f" <- {', '.join(node.inputs)}" if node.inputs else ""
    yield f"{_title(node)}{reads}"
    yield from (f"  {line}" for line in _content(node, streams))
    if not isinstance(node, nodes.OutputNode):
        yield f"  for {some(users)}"


def _title(node: nodes.Node) -> str:
    if isinstance(node, nodes.OutputNode):
        return f"output {node.query}"
    name = node.id if node.id.startswith(node.kind) else f"{node.kind} {node.id}"
    number = node.computation.number if isinstance(node, nodes.NetworkNode) and node.computation else None
    return name if number is None else f"{name} (node {number})"


def _streams(plan: SharedPlan) -> dict[str, Stream]:
    found = (leaf for each in plan.queries.values() for leaf in leaves(each.query.relation))
    return {each.name: each for each in found if isinstance(each, Stream)}


def _content(node: nodes.Node, streams: Mapping[str, Stream]) -> Iterator[str]:
    """What a node computes, and what was decided of it."""

    def named(text: str, stream: str) -> str:
        return with_names(text, streams[stream]) if stream in streams else text

    match node:
        case nodes.FilterNode() | nodes.JoinNode():
            assert node.computation is not None
            yield f"where {node.computation.predicates.text}"
            yield f"{count(node.computation.rows, 'row')} expected, {_host(node.on_executors)}"
        case nodes.ReduceNode():
            keys, kept = ([named(each, node.stream) for each in texts] for texts in (node.keys, node.aggregates))
            yield f"by {some(keys) or 'nothing'}; {count(len(node.windows), 'window')} cut time"
            yield f"keeps {some(kept)}"
        case nodes.WindowTreeNode():
            yield f"windows {some([window_text(each, node.clock) for each in node.spec.windows])}"
            for measure, choice in zip(node.spec.measures, node.kernels, strict=True):
                yield f"{named(measure, node.log.of)} in {choice.kernel}: {choice.decision.reason}"
            yield f"{_host(node.on_executors)}{f': {node.host.reason}' if node.host.reason else ''}"
        case nodes.SparkSelectNode():
            yield f"evaluated by Spark: {node.decision.reason}"
        case nodes.RelationNode():
            yield from relation_lines(node.relation)
            yield f"evaluated by {node.evaluator.value}, since cycle {node.start.first}"
        case nodes.OutputNode():
            yield f"since cycle {node.start.first}"


def _host(on_executors: bool) -> str:
    return "on the executors" if on_executors else "in the driver"
