"""The functions of `cells` in machine code, for rows of all keys and for single numbers.

Numba picks an implementation by the type of the arithmetic `f`, when it compiles a kernel; importing this package is
what makes that possible.

    overloading.py    how compiled code gets its own meaning of a function
    places.py         memories, and the numbers of a kernel
    on_rows.py        arithmetic on rows of all keys
    on_numbers.py     arithmetic on single numbers
    on_pairs.py       arithmetic on single pairs of integers
    dispatch.py       which of these for which arithmetic
"""

from __future__ import annotations

from weft.kernels.compiled import dispatch, places

__all__ = ["dispatch", "places"]
