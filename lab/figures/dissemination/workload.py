"""The thesis's set-up (its Section 4.4.1), as far as it says.

A transit–stub network of 1,500 sites: one source, 256 providers, 20 ms between two of them on average. Filtering takes
5 ms and sending 1 ms on average, uniform from 1 ms and 0.125 ms up; the source is as quick as the quickest. `load`
multiplies the averages. With one object, rates are uniform from 0.5 to 1.5 messages a second.

With many objects the thesis has stock prices polled from a web site of 2006, which are not to be had; each node wants
an object with probability 0.6, and tolerates between 0.01 and 0.1. Prices are taken to wander: a random walk leaves a
tolerance c at a rate of σ²/c². σ is chosen so that the source alone, sending to everyone, is used to 12 % with 100
objects: the model then has 500 objects treble its loss of fidelity, as the thesis reports (events: nearly double).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from lab.dissemination.overlay import SOURCE, Floats, Overlay, overlay
from lab.federation.generated_topologies import transit_stub
from weft.federation.distribution.topology import ways_from

SITES, PROVIDERS, MEAN_DELAY = 1500, 256, 0.020
FILTER, SEND = (0.005, 0.001), (0.001, 0.000125)  # seconds: the mean and the least
INTEREST = 0.6
_TOLERANCES = (0.01, 0.1)
_STAR_LOAD_OF_100 = 0.12


def one_object(seed: int, nodes: int = PROVIDERS, load: float = 1.0, rate: float = 1.0) -> Overlay:
    """`load` makes nodes slower, `rate` messages more frequent."""
    random = np.random.default_rng(seed)
    rates = rate * random.uniform(0.5, 1.5, nodes + 1)
    rates[SOURCE] = rates.max()
    return _overlay(random, seed, rates[:, None], load)


def many_objects(
    seed: int, objects: int, nodes: int = PROVIDERS, load: float = 1.0, interest: float = INTEREST
) -> Overlay:
    random = np.random.default_rng(seed)
    tolerances = random.uniform(*_TOLERANCES, (nodes + 1, objects))
    rates = tolerances**-2.0 * (random.random((nodes + 1, objects)) < interest)
    wanted_by_none = ~rates[1:].any(axis=1)
    rates[1:][wanted_by_none, 0] = _TOLERANCES[1] ** -2.0
    rates[SOURCE] = rates.max(axis=0)
    return _overlay(random, seed, rates * _calmness(), load)


def _calmness() -> float:
    """σ²: the source of the full set-up tests each of 100 objects for six nodes in ten, and sends to some of them."""
    least, most = _TOLERANCES
    wanting = INTEREST * PROVIDERS
    strictest = least + (most - least) / wanting
    tested = 100 * wanting * strictest**-2.0
    sent = 100 * wanting / (least * most)  # the mean of c^−2 over tolerances
    return _STAR_LOAD_OF_100 / (FILTER[1] * tested + SEND[1] * sent)


def _overlay(random: Generator, seed: int, rates: Floats, load: float) -> Overlay:
    nodes = len(rates)
    return overlay(
        rates, _times(random, nodes, FILTER, load), _times(random, nodes, SEND, load), _delays(seed, nodes - 1)
    )


def _times(random: Generator, nodes: int, times: tuple[float, float], load: float) -> Floats:
    mean, least = times
    drawn = random.uniform(least, 2 * mean * load - least, nodes)
    drawn[SOURCE] = least
    return drawn


def _delays(seed: int, nodes: int) -> Floats:
    topology = transit_stub(seed, sites=SITES, sources=1, providers=nodes)
    chosen = [*topology.sources, *topology.providers]
    delays = ways_from(topology, chosen)[:, chosen]
    between_nodes = delays[1:, 1:][~np.eye(nodes, dtype=bool)]
    return delays * (MEAN_DELAY / between_nodes.mean())
