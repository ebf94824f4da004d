"""The loops of loops.cpp, compiled when a compiler is at hand."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SOURCE = Path(__file__).with_name("loops.cpp")
_COMPILERS = ("g++", "clang++", "c++")
_OPTIONS = ("-O2", "-std=c++17", "-shared", "-fPIC")


def compiler() -> str | None:
    """The C++ compiler: the one that CXX names, or the first of the usual ones."""
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *_COMPILERS))), None)


def compile_loops(with_compiler: str) -> ctypes.CDLL:
    """Compiles and loads them. The library stays loaded after its file is gone."""
    with TemporaryDirectory() as folder:
        library = Path(folder) / "loops.so"
        subprocess.run([with_compiler, *_OPTIONS, "-o", str(library), str(_SOURCE)], check=True)
        return ctypes.CDLL(str(library))


class CppLoop:
    """One of the loops, with its memory. `words` is how many 64-bit words one answer takes."""

    def __init__(self, library: ctypes.CDLL, name: str, values: NDArray[Any], window: int, words: int = 1) -> None:
        self._values = np.ascontiguousarray(values).ravel()
        self._function = getattr(library, name)
        self._function.restype = None
        self._function.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
        self._function.argtypes += [ctypes.c_void_p] * 2
        self._window = window
        self._ring = np.zeros(window, dtype=self._values.dtype)
        self._at = np.zeros(1, dtype=np.int64)
        # Two words hold any of the sums: a 128-bit one, or one with its carry.
        self._sum = np.zeros(2, dtype=self._values.dtype)
        self._words = words

    def slide(self, per_call: int) -> NDArray[Any]:
        """Takes in all values, call by call as the kernels do; returns the answers of the last call."""
        answers = np.empty((per_call, self._words), dtype=self._values.dtype)
        for at in range(0, len(self._values), per_call):
            part = self._values[at : at + per_call]
            memory = (array.ctypes.data for array in (self._ring, self._at, self._sum))
            ring, place, total = memory
            self._function(part.ctypes.data, answers.ctypes.data, len(part), ring, self._window, place, total)
        return answers
