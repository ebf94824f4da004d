"""Decides where state lives: in the driver as long as it is small, on the executors beyond.

All windows of a stream with the same grouping keys are in one place. In the driver they stay from cycle to cycle, and a
cycle costs what it brings. On the executors they are rebuilt from the stored partials: a cycle costs what is live, but
no single machine has to hold it. The rows that joins look for are in one place, too. Answers are the same.

Between half a limit and the limit, state stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.optimizer.rules.facts import Facts
from weft.plan.log_ids import LogKind
from weft.plan.nodes import Decision, KeySet, NetworkNode, Node, WindowTreeNode
from weft.plan.shared_plan import SharedPlan
from weft.sql.settings import Settings

_RULE = "place_state"


def place_state(plan: SharedPlan, facts: Facts) -> SharedPlan:
    made: list[Node] = list(_placed_trees(plan, facts))
    if made:
        plan = plan.with_nodes(made)
        trees = [each for each in made if isinstance(each, WindowTreeNode)]
        there, here = (
            {(each.log.of, each.spec.keys) for each in trees if each.on_executors is away} for away in (True, False)
        )
        plan = plan.with_fields(windows_on_executors=plan.windows_on_executors - here | there)
    away = _joins_belong_on_executors(plan, facts)
    if away == plan.joins_on_executors:
        return plan
    moved = [replace(each, on_executors=away) for each in plan.of(NetworkNode)]
    return plan.with_nodes(moved).with_fields(joins_on_executors=away)


def _placed_trees(plan: SharedPlan, facts: Facts) -> Iterable[Node]:
    """The trees over streams that change their place."""
    touched = [node for id_ in plan.touched if isinstance(node := plan.nodes.get(id_), WindowTreeNode)]
    is_plain = facts.settings.kernels == "auto" and not facts.live_partials and not facts.displaced
    trees = touched if is_plain and not plan.windows_on_executors else plan.of(WindowTreeNode)
    for tree in trees:
        if tree.log.kind is LogKind.STREAM and (facts.live_partials is not None or not tree.host.reason):
            keys = tree.log.of, tree.spec.keys
            partials = (facts.live_partials or {}).get(keys, 0)
            away, host = placement(tree.spec.keys, partials, facts.settings, on_executors_now=tree.on_executors)
            if keys in facts.displaced:
                away, host = (
                    True,
                    Decision(_RULE, "its windows need more memory than max_state_mb allows in the driver"),
                )
            if away != tree.on_executors or not tree.host.reason:
                yield replace(tree, on_executors=away, host=host)


def placement(
    keys: KeySet, partials: int, settings: Settings, *, on_executors_now: bool = False
) -> tuple[bool, Decision]:
    """Whether a key set belongs on the executors that has a number of live partials, one for each key and slice."""
    if not keys:
        return False, Decision(_RULE, "without keys there is one group")
    if settings.kernels != "auto":
        return settings.kernels == "executors", Decision(_RULE, f"kernels = {settings.kernels}")
    limit = settings.max_driver_partials
    away = partials > (limit // 2 if on_executors_now else limit)
    count = f"{partials:,} live partials" if away else "few live partials"
    return away, Decision(_RULE, f"{count}, max_driver_partials = {limit:,}")


def _joins_belong_on_executors(plan: SharedPlan, facts: Facts) -> bool:
    if facts.settings.kernels != "auto":
        return facts.settings.kernels == "executors"
    if facts.most_join_rows is None:
        return plan.joins_on_executors
    return facts.join_rows > (facts.most_join_rows // 2 if plan.joins_on_executors else facts.most_join_rows)
