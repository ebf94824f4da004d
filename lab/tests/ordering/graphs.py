"""Join graphs to try things on: the thesis's, and random ones."""

from __future__ import annotations

from random import Random

from lab.ordering.join_graph import Join, JoinGraph

#: R ⋈ S ⋈ T: S tuples may go 2 → 1 → 3 or 2 → 3 → 1.
RUNNING = JoinGraph({"R": "1", "S": "2", "T": "3"}, (Join("R.a", "S.a", "1"), Join("S.b", "T.b", "3")))

#: A reconstruction of the thesis's Figure 5.4 that agrees with all that is said about it.
FIGURE_5_4 = JoinGraph(
    {"R1": "1", "R2": "2", "R3": "1", "R4": "4", "R5": "5", "R6": "6"},
    (
        Join("R1.a", "R3.a", "1"),
        Join("R1.b", "R2.b", "2"),
        Join("R2.c", "R4.c", "2"),
        Join("R4.d", "R5.d", "5"),
        Join("R5.e", "R6.e", "6"),
    ),
)


def random_tree(random: Random, streams: int, places: int) -> JoinGraph:
    """A connected query without cycles; streams and joins at any place, so that a place may have several sub-queries,
    and a join may be at neither of its streams'."""
    names = [f"Q{number}" for number in range(streams)]
    at = {name: str(1 + random.randrange(places)) for name in names}
    joins = []
    for number in range(1, streams):
        other = random.randrange(number)
        joins.append(_join(random, names[other], names[number], places))
    return JoinGraph(at, tuple(joins))


def random_graph(random: Random, streams: int, places: int, more: int) -> JoinGraph:
    """A random tree with some more joins, which close cycles within a place or across places."""
    tree = random_tree(random, streams, places)
    joins = set(tree.joins)
    for _ in range(more):
        left, right = random.sample(sorted(tree.streams), 2)
        joins.add(_join(random, left, right, places))
    return JoinGraph(tree.streams, tuple(sorted(joins)))


def _join(random: Random, left: str, right: str, places: int) -> Join:
    return Join(f"{left}.{random.choice('ab')}", f"{right}.{random.choice('ab')}", str(1 + random.randrange(places)))
