"""The picture in the docs: a tree whose two best-placed nodes have become slow, and the same after a few tokens.

python -m lab.figures.dissemination.picture
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench import charts
from lab.dissemination.arrays import arrays, average_loss, forest_of
from lab.dissemination.construction import greedy, one_bundle
from lab.dissemination.overlay import SOURCE, Overlay, overlay
from lab.dissemination.rounds import adapt
from lab.dissemination.trees import Tree, children_of
from lab.figures.dissemination.single_object import slowed

PICTURE = Path(__file__).parents[3] / "docs" / "dissemination_trees.svg"
_NODES, _SEED = 22, 7
_TOWNS = ("#00798c", "#8f6bb3", "#e8963e", "#5f7f3f", "#3d5a80")


def _world() -> Overlay:
    """Nodes in five towns around the source."""
    random = np.random.default_rng(_SEED)
    towns = np.array([(0.15, 0.75), (0.8, 0.85), (0.85, 0.3), (0.45, 0.1), (0.1, 0.2)])
    places = towns[np.arange(_NODES) % len(towns)] + random.normal(0, 0.07, (_NODES, 2))
    places = np.vstack([[(0.45, 0.5)], places])
    delay = 0.1 * np.hypot(*(places[:, None] - places[None, :]).transpose(2, 0, 1))
    times = random.uniform(0.002, 0.008, _NODES + 1)
    rates = random.uniform(0.5, 1.5, _NODES + 1)
    times[0], rates[0] = 0.006, rates.max()
    return overlay(rates, times, times / 5, delay)


def main() -> None:
    quick = _world()
    grown = greedy(quick, one_bundle(quick))
    inner = sorted(range(1, quick.nodes), key=lambda node: -len(grown[0].children(node)))
    slow = inner[:2]
    busy = slowed(quick, slow)
    made = arrays(busy, grown)
    before = average_loss(made)
    history = adapt(made, rounds=30)
    figure, (left, right) = charts.canvas(2, width=6.4, height=3.4)
    _draw(left, grown[0], slow, f"before: nodes {slow[0]} and {slow[1]} have become ten times slower")
    _draw(
        right,
        forest_of(made)[0],
        slow,
        f"after {len(history) - 2} rounds: {history[-1] / before:.0%} of the loss is left",
    )
    charts.plt.rcParams["svg.hashsalt"] = "weft"
    figure.savefig(PICTURE, metadata={"Date": None})


def _draw(axis: charts.Axes, tree: Tree, slow: list[int], title: str) -> None:
    """Levels from the source down; the colour of a node is its town."""
    axis.set_axis_off()
    axis.set_title(title, fontsize=10.5)
    places = _places(tree)
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            (x, y), (to_x, to_y) = places[parent], places[node]
            axis.plot([x, to_x], [y, to_y], color="#b8c2ca", linewidth=1.6, zorder=1)
    for node, (x, y) in places.items():
        colour = "#222222" if node == SOURCE else _TOWNS[(node - 1) % len(_TOWNS)]
        edge = {"markeredgecolor": "#d1495b", "markeredgewidth": 3.5} if node in slow else {"markeredgewidth": 0}
        axis.plot(x, y, "s" if node == SOURCE else "o", markersize=17, color=colour, zorder=3, **edge)
        axis.text(x, y, "s" if node == SOURCE else str(node), color="white", ha="center", va="center", fontsize=8)
    axis.margins(0.06, 0.15)


def _places(tree: Tree) -> dict[int, tuple[float, float]]:
    """Leaves side by side, and every parent above the middle of its children."""
    below, places = children_of(tree), {}
    leaves = 0

    def put(node: int, depth: int) -> float:
        nonlocal leaves
        across = [put(child, depth + 1) for child in below[node]]
        if not across:
            leaves += 1
        x = sum(across) / len(across) if across else float(leaves)
        places[node] = (x, -float(depth))
        return x

    put(SOURCE, 0)
    return places


if __name__ == "__main__":
    main()
