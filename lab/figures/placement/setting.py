"""How large and how long runs are, and what is done to them.

The cluster is the thesis's: 32 nodes with three streams each, 500 queries, 100 Mbit/s. A quick run has half of all of
it, so every node has as much to do as in a full one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from lab.placement.simulated.cluster import Change, Cluster, Control, Scheme, run
from lab.placement.simulated.tuples import Network
from lab.placement.simulated.workload import Setting, Workload, draw

ZIPF = 0.95

#: How many times as fast streams become.
FASTER = 3.0


@dataclass(frozen=True, slots=True)
class Effort:
    """`calm`, `changed` and `after` are the seconds before streams change, until they change back, and from then on."""

    quick: bool
    nodes: int
    seeds: tuple[int, ...]
    seconds: float
    calm: float
    changed: float
    after: float
    bounds: tuple[int, ...]
    operators: tuple[float, ...]
    perturbed: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def whole(self) -> float:
        return self.calm + self.changed + self.after

    def setting(self, **changed: float) -> Setting:
        return Setting(nodes=self.nodes, queries=500 * self.nodes // 32, **changed)  # type: ignore[arg-type]

    def network(self, shared: bool = True) -> Network:
        """A medium that all share has to carry less if there are fewer; the link of one node does not."""
        return Network(bits_per_second=100e6 * (self.nodes / 32 if shared else 1.0), shared=shared)

    def chosen(self, seed: int, number: int) -> set[int]:
        """Some nodes at random."""
        return set(np.random.default_rng((seed, number)).choice(self.nodes, number, replace=False).tolist())


FULL = Effort(
    quick=False,
    nodes=32,
    seeds=(1, 2),
    seconds=60.0,
    calm=20.0,
    changed=30.0,
    after=30.0,
    bounds=(0, 2, 4, 5, 8),
    operators=(1.6, 2.0, 3.0, 4.0),
    perturbed=(0, 4, 8),
    weights=(0.5, 0.9, 0.98),
)

QUICK = Effort(
    quick=True,
    nodes=16,
    seeds=(1,),
    seconds=16.0,
    calm=5.0,
    changed=9.0,
    after=10.0,
    bounds=(0, 4),
    operators=(3.0,),
    perturbed=(0, 4),
    weights=(0.9,),
)


def faster(workload: Workload, nodes: Iterable[int], factor: float) -> Callable[[Cluster], None]:
    """Streams that come to some nodes become so many times as fast as at first."""
    streams = [stream for stream, node in enumerate(workload.delegates) if node in set(nodes)]
    return lambda cluster: cluster.tuples.change_rates(streams, factor)


def there_and_back(effort: Effort, workload: Workload, nodes: Iterable[int]) -> tuple[Change, ...]:
    return (
        (effort.calm, faster(workload, nodes, FASTER)),
        (effort.calm + effort.changed, faster(workload, nodes, 1.0)),
    )


def ran(
    effort: Effort,
    workload: Workload,
    scheme: Scheme,
    seed: int,
    *,
    until: float | None = None,
    changes: tuple[Change, ...] = (),
    control: Control | None = None,
    shared: bool = True,
) -> Cluster:
    """A run to its end."""
    end = until or effort.seconds
    cluster = Cluster(workload, scheme, control, effort.network(shared), horizon=end, seed=seed)
    return run(cluster, end, changes)


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


__all__ = ["FASTER", "FULL", "QUICK", "ZIPF", "Effort", "draw", "faster", "mean", "ran", "there_and_back"]
