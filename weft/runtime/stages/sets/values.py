"""Rows as numbers: equal rows have one number, given when the first of them comes.

`stages/windows/numbering.py` numbers keys by looking through all that are known, and never forgets one. Here the
bytes of a row are looked up in a dictionary, so that a cycle costs what is new, and values that are gone can be left
out.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import compress

import numpy as np
import pyarrow as pa

from weft.runtime.columnar.row_encoding import Encoding
from weft.runtime.stages.sets.tables import Mask, Numbers

#: About what Python needs for a number, and for a string of bytes beside the bytes themselves.
_INTEGER, _BYTES = 32, sys.getsizeof(b"") + 8


class Values:
    """Distinct rows in the order in which they were first seen."""

    def __init__(self, columns: Sequence[pa.Field]) -> None:
        self._encoding = Encoding(tuple(columns))
        self._begin([])

    def _begin(self, encoded: Sequence[bytes]) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict(None, zip(encoded, range(len(encoded)), strict=True))
        # Who is not known gets the next number.
        self._numbers.default_factory = self._numbers.__len__
        self._content = sum(map(len, encoded))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def bytes_held(self) -> int:
        return sys.getsizeof(self._numbers) + self._content + len(self) * (_INTEGER + _BYTES)

    def numbers(self, rows: pa.Table) -> Numbers:
        """The number of each row; one that is new gets the next."""
        distinct = self._encoding.encoded(rows).dictionary_encode()
        encoded = distinct.dictionary.to_numpy(zero_copy_only=False)
        before = len(self)
        numbers = np.fromiter(map(self._numbers.__getitem__, encoded), np.int64, len(encoded))
        self._content += sum(map(len, encoded[numbers >= before]))
        return np.asarray(numbers[np.asarray(distinct.indices)])

    def columns(self, which: Mask) -> list[pa.Array]:
        """The columns of some values, in the order of their numbers."""
        return self._encoding.decoded(list(compress(self._numbers, which)))

    def keep(self, which: Mask) -> None:
        """Leave out all values but some. These are numbered anew, in the order that they had."""
        self._begin(list(compress(self._numbers, which)))
