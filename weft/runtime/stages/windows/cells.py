"""Cells: the finest fragments that the windows of a stream cut its time into.

Every edge of every woven window is the edge of a cell, so a partial of a cell is of use to all of them. The cell of a
row is named by its start and computed in Spark from the row's clock alone. The text holds no date and no watermark:
Spark compiles it once and not in every cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import gcd, lcm

from weft.algebra import Window
from weft.windows import EdgeSet, ResidueClass, reduced, shared_edges

#: So many classes of edges are compared one by one; more are looked up in a table, or made one class that has them all.
_FEW = 12
#: The longest table: one entry for each stretch between two multiples of the common divisor, for a whole period.
_TABLE = 7_200


def edges_of(windows: Iterable[Window]) -> EdgeSet:
    """The edges of all windows, by as few classes as say it."""
    return reduced(shared_edges(set(windows)))


def cell_sql(edges: EdgeSet, clock: str) -> str:
    """The start of the cell that a row with this clock is in, as Spark SQL."""
    classes = sorted(edges)
    if not classes:
        # No window cuts time: everything is one cell.
        return "0L"
    if len(classes) == 1:
        return _since_last(classes[0], clock)
    if len(classes) <= _FEW:
        return f"greatest({', '.join(_since_last(each, clock) for each in classes)})"
    period, finest = _period(classes), starts_of(edges)
    assert finest is not None
    if period // finest.modulus <= _TABLE:
        return _looked_up(classes, period, finest, clock)
    # More cells than there need be, and still no window has an edge inside one of them.
    return _since_last(finest, clock)


def starts_of(edges: EdgeSet) -> ResidueClass | None:
    """The class of widest spacing that all cells begin in; None if no window cuts time."""
    classes = sorted(edges)
    if not classes:
        return None
    first = classes[0].residue
    step = reduce(gcd, (number for each in classes for number in (each.modulus, each.residue - first)), 0)
    return ResidueClass(step, first % step)


def _since_last(edge_class: ResidueClass, clock: str) -> str:
    shifted = clock if not edge_class.residue else f"{clock} - {edge_class.residue}L"
    return f"({clock} - pmod({shifted}, {edge_class.modulus}L))"


def _period(classes: Sequence[ResidueClass]) -> int:
    return lcm(*(each.modulus for each in classes))


def _looked_up(classes: Sequence[ResidueClass], period: int, finest: ResidueClass, clock: str) -> str:
    """How long ago the last edge was, for each of the stretches of a period."""
    step, offset = finest
    instants = range(offset, period, step)
    ago = [min((instant - each.residue) % each.modulus for each in classes) for instant in instants]
    into = f"pmod({clock} - {offset}L, {period}L)"
    table = ", ".join(f"{each}L" for each in ago)
    return f"({clock} - pmod({into}, {step}L) - array({table})[CAST({into} div {step}L AS INT)])"
