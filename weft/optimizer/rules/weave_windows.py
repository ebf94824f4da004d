"""Decides which windows share a tree: those of a cohort, as far as that costs less (`weave/window_trees.py`).

A cohort is the aggregates over a log that take the same rows and group them by the same keys. Its trees are planned
again when aggregates come or go, and when what is known of the stream has left the range they were chosen for; they are
reused as far as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from math import inf
from typing import NamedTuple

from weft.algebra import Stream, Window
from weft.algebra.codec import dumps
from weft.optimizer.aggregates.stream_shapes import Woven
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import row_shape, stream_shape
from weft.optimizer.rules.share_reductions import reduce_id
from weft.optimizer.weave.window_trees import CostTerms, asked_of, cost_terms, planned_trees, reused_trees
from weft.plan.facts import StreamFacts
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import (
    Decision,
    Evaluator,
    KeySet,
    Node,
    ProjectNode,
    ReduceNode,
    TreeSpec,
    WindowTreeNode,
)
from weft.plan.shared_plan import SharedPlan
from weft.windows.counting import edge_rate
from weft.windows.slicing import shared_edges


class CohortId(NamedTuple):
    """The aggregates over a log that take the same rows and group them by the same keys."""

    log: LogId
    conditions: frozenset[str]
    keys: KeySet


def weave_windows(plan: SharedPlan, facts: Facts) -> SharedPlan:
    changed = _reductions_with_other_facts(plan, facts)
    known = plan.with_nodes(changed) if changed else plan
    affected = _affected(known, changed)
    trees_by_cohort = trees_of(known, affected)
    made: dict[str, Node] = {}
    dropped: set[str] = set()
    for cohort, new in affected.items():
        is_anew = any(each.id == _input(cohort) for each in changed)
        trees, projects, gone = _woven(known, cohort, trees_by_cohort[cohort], new, facts, is_anew=is_anew)
        made |= trees
        made |= projects
        dropped |= gone
    return known.with_nodes(made.values(), dropped - made.keys()) if made or dropped else known


def shape_of(node: ProjectNode) -> Woven:
    """What an aggregate needs of its input."""
    return stream_shape(node) if node.evaluator is Evaluator.WINDOWS else row_shape(node).shape


def cohort_of(node: ProjectNode) -> CohortId:
    shape = shape_of(node)
    return CohortId(node.logs[0], frozenset(each.text for each in shape.conditions), shape.keys)


def _input(cohort: CohortId) -> str:
    """What the trees of a cohort read."""
    return reduce_id(cohort.log.of) if cohort.log.kind is LogKind.STREAM else cohort.log


def facts_of(plan: SharedPlan, cohort: CohortId) -> StreamFacts:
    """What the trees of a cohort are chosen by."""
    reduction = plan.nodes.get(_input(cohort))
    return reduction.facts if isinstance(reduction, ReduceNode) else StreamFacts()


def _reductions_with_other_facts(plan: SharedPlan, facts: Facts) -> list[ReduceNode]:
    """The reductions of streams that are not any more what their trees were chosen for; all when a process starts."""
    if facts.is_start:
        return [replace(each, facts=facts.streams.get(each.stream, StreamFacts())) for each in plan.of(ReduceNode)]
    found = []
    for stream, known in facts.streams.items():
        node = plan.nodes.get(reduce_id(stream))
        if isinstance(node, ReduceNode) and node.facts != known:
            found.append(replace(node, facts=known))
    return found


def _affected(plan: SharedPlan, changed: list[ReduceNode]) -> dict[CohortId, dict[str, ProjectNode]]:
    """The cohorts to be woven again, each with the aggregates that have no tree yet."""
    found: dict[CohortId, dict[str, ProjectNode]] = {}
    for id_ in sorted(plan.touched):
        node = plan.nodes.get(id_)
        if isinstance(node, WindowTreeNode):
            found.setdefault(CohortId(node.log, node.spec.conditions, node.spec.keys), {})
            continue
        for each in map(plan.nodes.__getitem__, plan.readers_of(id_)):
            if isinstance(each, ProjectNode) and each.evaluator in (Evaluator.WINDOWS, Evaluator.GROUPS):
                found.setdefault(cohort_of(each), {})[each.id] = each
    for reduction in changed:
        for id_ in plan.readers_of(reduction.id):
            node = plan.nodes[id_]
            if isinstance(node, WindowTreeNode):
                found.setdefault(CohortId(node.log, node.spec.conditions, node.spec.keys), {})
    return found


def trees_of(plan: SharedPlan, cohorts: Iterable[CohortId]) -> dict[CohortId, list[WindowTreeNode]]:
    """The trees of some cohorts, in the order in which they were made."""
    found: dict[CohortId, list[WindowTreeNode]] = {each: [] for each in cohorts}
    for input_ in dict.fromkeys(map(_input, found)):
        for node in map(plan.nodes.__getitem__, plan.readers_of(input_)):
            if isinstance(node, WindowTreeNode):
                cohort = CohortId(node.log, node.spec.conditions, node.spec.keys)
                if cohort in found:
                    found[cohort].append(node)
    return {cohort: sorted(trees, key=lambda each: each.made) for cohort, trees in found.items()}


def members_of(plan: SharedPlan, tree: WindowTreeNode) -> Iterator[ProjectNode]:
    """The aggregates that a tree answers."""
    for id_ in plan.readers_of(tree.id):
        node = plan.nodes[id_]
        if isinstance(node, ProjectNode):
            yield node


def _woven(
    plan: SharedPlan,
    cohort: CohortId,
    known: Sequence[WindowTreeNode],
    new: Mapping[str, ProjectNode],
    facts: Facts,
    *,
    is_anew: bool,
) -> tuple[dict[str, WindowTreeNode], dict[str, ProjectNode], set[str]]:
    """The trees of a cohort and its aggregates that read others than before, and the trees that are gone."""
    projects = {each.id: each for tree in known for each in members_of(plan, tree)} | dict(new)
    if not projects:
        return {}, {}, {each.id for each in known}
    projects = {id_: projects[id_] for id_ in sorted(projects, key=lambda each: _order(plan, projects[each]))}
    shapes = {id_: shape_of(each) for id_, each in projects.items()}
    planned = planned_trees(cohort.conditions, shapes, terms_of(plan, cohort, shapes))
    homes = planned
    if known and not is_anew:
        newborn = {id_ for id_, each in new.items() if _is_newborn(each, facts)}
        homes = (
            reused_trees(tuple(dict.fromkeys(planned.values())), shapes, newborn, [each.spec for each in known])
            or planned
        )
    of_spec = {each.spec: each for each in known}
    clock = next(iter(projects.values())).relation.clock_type
    number = max((each.made for each in known), default=0)
    trees: dict[TreeSpec, WindowTreeNode] = {}
    for spec in dict.fromkeys(homes.values()):
        tree = of_spec.get(spec)
        if tree is None:
            number += 1
            tree = WindowTreeNode(
                tree_id(cohort.log, spec), (_input(cohort),), cohort.log, spec, (), number, False,
                Decision("place_state"), Decision("weave_windows"), clock,
            )  # fmt: skip
        elif is_anew:
            tree = replace(tree, kernels=())
        trees[spec] = tree
    moved = {
        id_: replace(projects[id_], inputs=(trees[spec].id,))
        for id_, spec in homes.items()
        if projects[id_].inputs != (trees[spec].id,)
    }
    made = {each.id: each for spec, each in trees.items() if of_spec.get(spec) is not each}
    return made, moved, {each.id for each in known} - {each.id for each in trees.values()}


def _order(plan: SharedPlan, node: ProjectNode) -> tuple[float, str]:
    """Those that answer the oldest queries come first."""
    numbers = (plan.queries[name].start.number for name in plan.queries_of(node.id))
    return min(numbers, default=inf), node.id


def _is_newborn(node: ProjectNode, facts: Facts) -> bool:
    """Whether an aggregate answers for what is still to come alone, and needs nothing that is stored."""
    source = node.sources[0][1]
    return isinstance(source, Stream) and not source.backfill and node.start.first == facts.cycle


def terms_of(plan: SharedPlan, cohort: CohortId, shapes: Mapping[str, Woven]) -> CostTerms:
    """What the trees of a cohort are weighed by."""
    node = plan.nodes.get(_input(cohort))
    windows = (
        node.windows if isinstance(node, ReduceNode) else tuple(dict.fromkeys(each.window for each in shapes.values()))
    )
    asked = {asked_of(each) for each in shapes.values()}
    return cost_terms(cohort.keys, asked, _finest_rate(windows), facts_of(plan, cohort))


@lru_cache(maxsize=256)
def _finest_rate(windows: tuple[Window, ...]) -> Fraction:
    """How many edges per tick the cut has that all windows of a log have together."""
    return edge_rate(shared_edges(windows)) if windows else Fraction(0)


def tree_id(log: LogId, spec: TreeSpec) -> str:
    described = dumps((str(log), tuple(sorted(spec.conditions)), spec.keys, spec.windows, spec.measures))
    return f"{WindowTreeNode.kind} {blake2b(described.encode(), digest_size=7).hexdigest()}"
