"""How much work a run of `bench.adaptation` may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    quick: bool


QUICK, FULL = Effort(quick=True), Effort(quick=False)
