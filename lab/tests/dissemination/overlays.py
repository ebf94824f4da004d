"""Overlays for tests: the worked example, and random ones."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from lab.dissemination.overlay import Overlay, overlay
from lab.dissemination.trees import Forest, Tree, tree_of

_WORKED_DELAYS = {
    (0, 1): 0.010, (0, 2): 0.020, (0, 3): 0.025, (0, 4): 0.030, (1, 2): 0.015,
    (1, 3): 0.012, (1, 4): 0.018, (2, 3): 0.020, (2, 4): 0.022, (3, 4): 0.010,
}  # fmt: skip


def worked() -> Overlay:
    """The worked example of the digest: a source and four nodes, one object."""
    delays = [[0.0] * 5 for _ in range(5)]
    for (one, other), delay in _WORKED_DELAYS.items():
        delays[one][other] = delays[other][one] = delay
    return overlay(
        rates=(2.0, 1.0, 0.5, 1.5, 0.8),
        filter_time=(0.001, 0.005, 0.004, 0.006, 0.003),
        send_time=(0.000125, 0.001, 0.002, 0.001, 0.001),
        delay=delays,
    )


WORKED_TREE = tree_of({1: 0, 2: 0, 3: 1, 4: 1}, nodes=5)


def drawn(nodes: int, objects: int, seed: int, busy: float = 1.0, interest: float = 0.7) -> Overlay:
    """Any overlay. Delays differ by direction; every node wants something; busy ones may be beyond what they can do."""
    random = Random(seed)
    rates = [[0.0] * objects]
    for _ in range(nodes):
        wanted = [random.uniform(0.1, 2.0) if random.random() < interest else 0.0 for _ in range(objects)]
        wanted[random.randrange(objects)] = random.uniform(0.1, 2.0)
        rates.append(wanted)
    rates[0] = [max(each[x] for each in rates) + random.choice([0.0, 0.5]) for x in range(objects)]
    delays = [[0.0 if i == j else random.uniform(0.001, 0.05) for j in range(nodes + 1)] for i in range(nodes + 1)]
    return overlay(
        rates,
        [random.uniform(0.001, 0.02) * busy for _ in range(nodes + 1)],
        [random.uniform(0.0001, 0.005) * busy for _ in range(nodes + 1)],
        delays,
    )


def drawn_forest(of: Overlay, bundles: list[tuple[int, ...]], seed: int) -> Forest:
    """Any trees, some of them with nodes that forward what they do not want themselves."""
    random = Random(seed)
    forest: list[Tree] = []
    for objects in bundles:
        nodes = set(of.interested(objects)) | {node for node in range(1, of.nodes) if random.random() < 0.2}
        order = random.sample(sorted(nodes), len(nodes))
        parents = {node: random.choice([0, *order[:place]]) for place, node in enumerate(order)}
        forest.append(tree_of(parents, of.nodes, objects))
    return tuple(forest)


@st.composite
def overlays_with_forests(draw: st.DrawFn, most_nodes: int = 12, most_objects: int = 4) -> tuple[Overlay, Forest]:
    nodes, objects = draw(st.integers(1, most_nodes)), draw(st.integers(1, most_objects))
    seed, busy = draw(st.integers(0, 2**32)), draw(st.sampled_from([0.1, 1.0, 10.0]))
    of = drawn(nodes, objects, seed, busy)
    bundle_of = draw(st.lists(st.integers(0, objects - 1), min_size=objects, max_size=objects))
    bundles = [tuple(x for x in range(objects) if bundle_of[x] == number) for number in sorted(set(bundle_of))]
    return of, drawn_forest(of, bundles, seed + 1)
