"""What a forest costs: how much fidelity its nodes lose on average. Slow, and meant to be obviously right.

A node tests every message for each of its children, which takes `filter_time`, and sends it to those that want it,
which takes `send_time` each; messages wait in one queue, first come, first served (M/M/1). With r the effective rate of
a subtree (the highest rate in it, for each object), of the messages that reach node k

    t(k, x)  = Σ over children j that want x: filter_time + send_time · r(j, x) / r(k, x)     a message of object x
    t(k)     = Σ over x: r(k, x) · t(k, x) / r(k)                                             a message of any
    ρ(k)     = r(k) · t(k)                                                                    how busy the node is
    wait(k)  = ρ / (1 − ρ) · t(k)

and a message of tree b, whose objects take t(k, b) on average, leaves for one of |C| children after

    g(k, b)  = wait(k) + ½ · t(k, b) · (1 − 1/|C|) + filter_time + send_time.

For one tree this is the formula of the COSMOS thesis, averaged over children (its 4.5 and 4.11); for a tree per object
it is that for each object (4.9 averaged): nodes wait for messages of all trees, and are held up by those of one.

The loss of fidelity of a node is Σ over its objects: rate × delay from the source, over the number of its objects. It
ranks trees; it is no fraction (a node far behind loses more than 1), and the measured loss is at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.dissemination.overlay import SOURCE, Overlay
from lab.dissemination.trees import Forest, Tree, children_of

#: Beyond this load the queue's formula goes on as a straight line: searches need a way back from ρ ≥ 1.
SATURATION = 0.99


def waiting(load: float, time: float) -> float:
    """The mean time in a queue of messages that each take `time`, at a load from 0 to nearly 1, and beyond it a number
    that is large, finite, and still grows with the load."""
    if load <= SATURATION:
        return load / (1.0 - load) * time
    idle = 1.0 - SATURATION
    return (SATURATION / idle + (load - SATURATION) / (idle * idle)) * time


@dataclass(frozen=True, slots=True)
class Cost:
    """What a forest comes to; lists are by node, and in lists of lists by tree first."""

    effective_rates: list[list[float]]
    processing: list[list[float]]
    delays: list[list[float]]
    loads: list[float]
    loss: list[float]

    @property
    def average_loss(self) -> float:
        """AvgLF: over the nodes, without the source."""
        return sum(self.loss) / (len(self.loss) - 1)


def evaluate(overlay: Overlay, forest: Forest) -> Cost:
    """All of it from the formulas above."""
    rates = _effective_rates(overlay, forest)
    tests = [[0.0] * len(forest) for _ in range(overlay.nodes)]
    for number, tree in enumerate(forest):
        for node, children in enumerate(children_of(tree)):
            tests[node][number] = sum(_busy_per_second(overlay, rates, tree, node, child) for child in children)
    loads = [sum(of_node) for of_node in tests]
    waits = []
    for node, load in enumerate(loads):
        received = sum(rates[node].values())
        waits.append(waiting(load, load / received) if received else 0.0)

    processing, delays, by_tree = [], [], []
    loss = [0.0] * overlay.nodes
    weights = overlay.weights()
    for number, tree in enumerate(forest):
        below = children_of(tree)
        of_tree = [sum(rates[node].get(x, 0.0) for x in tree.objects) for node in range(overlay.nodes)]
        by_tree.append(of_tree)
        g = [0.0] * overlay.nodes
        for node, children in enumerate(below):
            if children:
                time = tests[node][number] / of_tree[node] if of_tree[node] else 0.0
                own = overlay.filter_time[node] + overlay.send_time[node]
                g[node] = float(waits[node] + time / 2 * (1 - 1 / len(children)) + own)
        processing.append(g)
        reached = [0.0] * overlay.nodes
        for node in tree.breadth_first()[1:]:
            parent = tree.parents[node]
            reached[node] = float(reached[parent] + g[parent] + overlay.delay[parent, node])
            loss[node] += float(sum(weights[node, x] for x in tree.objects)) * reached[node]
        delays.append(reached)
    return Cost(by_tree, processing, delays, loads, loss)


def average_loss(overlay: Overlay, forest: Forest) -> float:
    """AvgLF of a forest, by full evaluation."""
    return evaluate(overlay, forest).average_loss


def processing_for_child(overlay: Overlay, tree: Tree, node: int, child: int) -> float:
    """g(k, j), before averaging over children (4.4): a child that is sent more waits less for its brothers."""
    rates = _effective_rates(overlay, (tree,))
    received = sum(rates[node].values())
    times = {each: _busy_per_second(overlay, rates, tree, node, each) / received for each in children_of(tree)[node]}
    total = sum(times.values())
    own = overlay.filter_time[node] + overlay.send_time[node]
    return float(waiting(total * received, total) + (total - times[child]) / 2 + own)


def _busy_per_second(overlay: Overlay, rates: list[dict[int, float]], tree: Tree, node: int, child: int) -> float:
    """How long a node is busy with one child in a second."""
    wanted = [x for x in tree.objects if rates[child].get(x, 0.0) > 0.0]
    tested = sum(rates[node][x] for x in wanted)
    sent = sum(rates[child][x] for x in wanted)
    return float(overlay.filter_time[node] * tested + overlay.send_time[node] * sent)


def _effective_rates(overlay: Overlay, forest: Forest) -> list[dict[int, float]]:
    """For each node and object that reaches it the highest rate in the subtree; the source has its own of all."""
    rates: list[dict[int, float]] = [{} for _ in range(overlay.nodes)]
    for tree in forest:
        for node in reversed(tree.breadth_first()):
            for x in tree.objects:
                rate = max(float(overlay.rates[node, x]), rates[node].get(x, 0.0))
                if rate > 0.0:
                    rates[node][x] = rate
                    if node != SOURCE:
                        parent = tree.parents[node]
                        rates[parent][x] = max(rate, rates[parent].get(x, 0.0))
    return rates
