"""A query of a workload: its name, and its SELECT in weft's dialect."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkloadQuery:
    name: str
    select: str

    @property
    def statement(self) -> str:
        return f"CREATE CONTINUOUS QUERY {self.name} AS {self.select}"
