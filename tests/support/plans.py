"""Shared plans of queries that are bound, without an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.algebra import Query
from weft.explain.describe_windows import sharing
from weft.explain.plan_description import Sharing
from weft.explain.project import NOT_RUN, Project
from weft.optimizer.optimizer import EMPTY, optimise
from weft.optimizer.rules.facts import Facts
from weft.plan.canonical import normalised
from weft.plan.event_time import QueryStart, RunningQuery
from weft.plan.facts import NOT_MEASURED, Measurements
from weft.plan.nodes import KernelChoice, TreeSpec, WindowTreeNode
from weft.plan.shared_plan import SharedPlan


def running(queries: Iterable[Query], first: int = 0) -> dict[str, RunningQuery]:
    """Queries in normal form that begin in a cycle, numbered in their order."""
    return {
        each.name: RunningQuery(replace(each, relation=normalised(each.relation)), QueryStart(number, first, {}))
        for number, each in enumerate(queries, start=1)
    }


def planned(queries: Iterable[Query], facts: Facts | None = None, previous: SharedPlan = EMPTY) -> SharedPlan:
    return optimise(running(queries), facts or Facts(), previous)


@dataclass(frozen=True)
class Trees:
    """The window tree of each query, by name, and the kernels of each tree."""

    tree_of: Mapping[str, TreeSpec]
    kernels: Mapping[TreeSpec, Sequence[KernelChoice]]


def trees(plan: SharedPlan) -> Trees:
    found = {tree.id: tree for tree in plan.of(WindowTreeNode)}
    answered = {name: plan.nodes[output.inputs[0]] for name, output in plan.outputs.items()}
    tree_of = {name: found[node.inputs[0]].spec for name, node in answered.items() if node.inputs[0] in found}
    return Trees(tree_of, {each.spec: each.kernels for each in found.values()})


def shared(queries: Sequence[Query], measured: Measurements = NOT_MEASURED, project: Project = NOT_RUN) -> Sharing:
    """What some queries share, as EXPLAIN describes it, but for the network."""
    return sharing(queries, project.plan(queries, measured.facts), measured, project)
