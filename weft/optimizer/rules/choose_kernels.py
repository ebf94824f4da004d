"""Chooses the kernel that keeps each measure of each window tree: of those that may, the cheapest."""

from __future__ import annotations

from dataclasses import replace

from weft.kernels.algorithms import ALGORITHMS
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.weave_windows import CohortId, facts_of, members_of, shape_of
from weft.optimizer.weave.window_trees import kernels_of, number_of_keys
from weft.plan.nodes import Alternative, Decision, KernelChoice, WindowTreeNode
from weft.plan.shared_plan import SharedPlan


def choose_kernels(plan: SharedPlan, facts: Facts) -> SharedPlan:
    made = []
    for id_ in sorted(plan.touched):
        node = plan.nodes.get(id_)
        if isinstance(node, WindowTreeNode) and not node.kernels:
            made.append(replace(node, kernels=_kernels(plan, node)))
    return plan.with_nodes(made) if made else plan


def _kernels(plan: SharedPlan, tree: WindowTreeNode) -> tuple[KernelChoice, ...]:
    spec = tree.spec
    measures = {each.name: each for member in members_of(plan, tree) for each in shape_of(member).all_measures}
    keys = number_of_keys(spec.keys, facts_of(plan, CohortId(tree.log, spec.conditions, spec.keys)))
    return tuple(
        KernelChoice(
            chosen.kernel,
            Decision(
                "choose_kernels",
                chosen.reason,
                None,
                tuple(Alternative(ALGORITHMS[name].title, why) for name, why in chosen.left_out.items()),
            ),
        )
        for chosen in kernels_of(spec, measures, keys).values()
    )
