"""What runs for groups now: the epochs whose representatives are evaluated, as the catalog has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.algebra import Relation
from weft.algebra.relations import WINDOW_START
from weft.catalog import Catalog, Representative
from weft.optimizer import group_results
from weft.optimizer.group_results import Kind
from weft.runtime.sinks.publishing import publishing_sink
from weft.sql.object_names import OWN
from weft.windows.residues import ResidueClass


@dataclass(frozen=True, slots=True)
class Runner:
    """An epoch that is evaluated. `names` are those of its parts; `ends` the ends of windows that each part publishes.

    `by` are the columns whose largest value is the place of a row; none if that is the cycle. `clock` are those whose
    largest value is its own clock; none if that is not published.
    """

    stream: str
    epoch: int
    kind: Kind
    relation: Relation
    reach: int
    by: tuple[str, ...]
    names: tuple[str, ...]
    ends: tuple[ResidueClass | None, ...]
    clock: tuple[str, ...] = ()


def runners(catalog: Catalog) -> dict[tuple[str, int], Runner]:
    """All that run, by stream and epoch."""
    parts: dict[tuple[str, int], list[Representative]] = {}
    for each in catalog.representatives():
        parts.setdefault((each.stream, each.epoch), []).append(each)
    return {key: _runner(found) for key, found in parts.items()}


def run(catalog: Catalog, found: group_results.Representative, stream: str, epoch: int) -> Runner:
    """Let a representative be evaluated from the next cycle on."""
    by: tuple[str, ...] = ()
    if found.kind is Kind.AGGREGATE:
        by = (WINDOW_START,)
    elif found.kind is Kind.JOIN:
        by = found.clocks
    parts = []
    for number, part in enumerate(found.parts):
        name = f"{OWN}{stream}.{epoch}" + f".{number}" * (number > 0)
        query = replace(part.query, name=name, text="", sink=publishing_sink(stream, epoch, number))
        ends = None if part.ends is None else [part.ends.modulus, part.ends.residue]
        about = {"kind": found.kind.value, "reach": found.reach, "by": by, "ends": ends, "clock": _clock(found)}
        parts.append(Representative(name, stream, epoch, number, query, about))
        catalog.add_representative(parts[-1])
    return _runner(parts)


def _runner(parts: Iterable[Representative]) -> Runner:
    listed = sorted(parts, key=lambda each: each.part)
    first = listed[0]
    about: Mapping[str, Any] = first.about
    return Runner(
        first.stream,
        first.epoch,
        Kind(about["kind"]),
        first.query.relation,
        about["reach"],
        tuple(about["by"]),
        tuple(each.name for each in listed),
        tuple(None if each.about["ends"] is None else ResidueClass(*each.about["ends"]) for each in listed),
        tuple(about.get("clock", ())),
    )


def _clock(found: group_results.Representative) -> tuple[str, ...]:
    """The published columns that show an answer's clock, if they do."""
    if found.kind is Kind.JOIN:
        return found.clocks
    shown = found.parts[0].query.clock
    return (shown,) if shown is not None and shown in found.columns else ()
