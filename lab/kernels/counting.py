"""Counting operations: a kernel run on single values, every ⊕, ⊖ and comparison counted.

The kernel is the one that runs compiled; only its arithmetic is another. To combine with nothing is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.kernels.algorithms.slickdeque_noninv import layout_of, slots_for
from weft.kernels.compiled.cells import Algorithm, Arithmetic, Index, KernelShape, empty_index
from weft.kernels.execution import loop_of

Cells = list[Any]


@dataclass
class Counted(Arithmetic):
    """The arithmetic of `cells` on lists of values, where None is nothing."""

    function: Callable[[Any, Any], Any]
    inverse: Callable[[Any, Any], Any] | None = None
    operations: int = 0

    def number_of_keys(self) -> int:
        return 1

    def combine(self, to: Cells, dst: int, left: Cells, a: int, right: Cells, b: int) -> None:
        to[dst] = self._combined(left[a], right[b])

    def subtract(self, to: Cells, dst: int, left: Cells, a: int, right: Cells, b: int) -> None:
        to[dst] = self._without(left[a], right[b])

    def swap(self, cells: Cells, dst: int, source: Cells, a: int, old: int) -> None:
        cells[dst] = self._without(self._combined(cells[dst], source[a]), cells[old])

    def copy(self, to: Cells, dst: int, source: Cells, a: int) -> None:
        to[dst] = source[a]

    def displaces(self, new: Cells, a: int, old: Cells, b: int, key: int) -> bool:
        self.operations += 1
        return bool(self.function(old[b], new[a]) == new[a])

    def put(self, to: Cells, dst: int, source: Cells, a: int, key: int) -> None:
        to[dst] = source[a]

    def _combined(self, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        self.operations += 1
        return self.function(left, right)

    def _without(self, total: Any, part: Any) -> Any:
        assert self.inverse is not None
        self.operations += 1
        return self.inverse(total, part)


@dataclass
class Trace:
    """What a kernel answered and spent, step by step, and the numbers it kept after each step."""

    answers: list[list[Any]] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    numbers: list[list[int]] = field(default_factory=list)


def trace(
    algorithm: Algorithm,
    values: Sequence[Any],
    starts: Sequence[Sequence[int]],
    function: Callable[[Any, Any], Any],
    inverse: Callable[[Any, Any], Any] | None = None,
    *,
    due: Sequence[Sequence[bool]] | None = None,
    commutative: bool = True,
) -> Trace:
    """Takes in the values one by one. In step s, range j begins at starts[s][j] and is answered, if it is due."""
    ranges = len(starts[0])
    capacity = max(step + 1 - begins[0] for step, begins in enumerate(starts))
    shape = KernelShape(capacity, ranges, commutative=commutative)
    # The paper's SlickDeque takes partials into the deque one by one.
    layout = layout_of(1, slots_for(capacity), batch=1, room=1) if algorithm.selects else algorithm.layout(shape)
    ix: Index = empty_index(shape, layout)
    table: Index = [0] * layout.table
    cells: Cells = [None] * layout.rows
    f = Counted(function, inverse)
    run = loop_of(algorithm)
    result = Trace()
    for step, (value, begins) in enumerate(zip(values, starts, strict=True)):
        wanted = [j for j in range(ranges) if due is None or due[step][j]]
        out: Cells = [None] * len(wanted)
        before = f.operations
        wrong = run(f, cells, ix, table, [value], list(begins), [*wanted, ranges], out, 1, ranges, 0)
        assert not wrong
        result.answers.append(out)
        result.operations.append(f.operations - before)
        result.numbers.append(list(ix))
    return result


def sliding(length: int, steps: int) -> list[list[int]]:
    """The starts of one window of `length` partials."""
    return [[max(0, step + 1 - length)] for step in range(steps)]


def all_lengths(longest: int, steps: int) -> list[list[int]]:
    """The starts of windows of all lengths, from the longest to 1."""
    return [[max(0, step + 1 - length) for length in range(longest, 0, -1)] for step in range(steps)]
