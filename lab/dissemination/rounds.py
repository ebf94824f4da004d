"""Token rounds: how a running tree adapts to what changed, node by node.

Once in an adaptation interval the source makes a token. A node that has it carries out the reorganisation below it that
saves most, if one saves anything, and then gives a copy to each child that has children itself. Below different
children the tokens touch different nodes, so their order does not matter; here they go level by level.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from lab.dissemination import rules
from lab.dissemination.arrays import Arrays, average_loss
from lab.dissemination.overlay import SOURCE
from lab.dissemination.rules import Reorganisation

#: A statistic is reported to the parent once it is this much larger or smaller than reported last.
REPORT_THRESHOLD = Fraction(1, 5)


def token_round(made: Arrays, tree: int = 0) -> list[Reorganisation]:
    """One token through one tree; what was reorganised, in order."""
    done, tokens = [], deque([SOURCE])
    while tokens:
        apex = tokens.popleft()
        chosen = rules.best(made, tree, apex)
        if chosen is not None:
            rules.apply(made, tree, chosen)
            done.append(chosen)
        is_inner_child = (made.at["parent"][tree] == apex) & (made.at["fan"][tree] > 0)
        tokens.extend(int(child) for child in np.flatnonzero(is_inner_child))
    return done


def adapt(made: Arrays, rounds: int, progress: Callable[[int, float], None] | None = None) -> list[float]:
    """Some rounds through all trees of a forest; AvgLF before the first and after each. Ends early if nothing changes
    any more, since then nothing ever will."""
    history = [average_loss(made)]
    for number in range(rounds):
        reorganised = [token_round(made, tree) for tree in range(len(made.at))]
        history.append(average_loss(made))
        if progress is not None:
            progress(number + 1, history[-1])
        if not any(reorganised):
            break
    return history


def is_worth_reporting(reported: float, measured: float) -> bool:
    """Whether a statistic has changed enough to tell the parent."""
    factor = float(1 + REPORT_THRESHOLD)
    return measured >= reported * factor or measured <= reported / factor if reported else measured > 0


def shortest_period(objects: int, decisions: int, time_per_decision: Fraction, share: Fraction) -> Fraction:
    """The shortest adaptation interval that leaves adaptation no more than a share of a node's processor.

    >>> shortest_period(10_000, 100, Fraction(6, 10_000_000), Fraction(1, 20))
    Fraction(12, 1)
    """
    return objects * decisions * time_per_decision / share
