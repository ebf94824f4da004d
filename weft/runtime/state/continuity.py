"""From one commit to the next: the state that goes on, where a cycle writes, and the files that are needed no more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from weft.plan.event_time import EventTime, QueryStart, RunningQuery
from weft.plan.log_ids import LogId, LogKind
from weft.plan.query_list import QueryList
from weft.runtime.state.commits import Commit, Intent, Segment, StreamState


@dataclass(frozen=True)
class CycleSpec:
    """What is known of a cycle before it runs: the plan, and all else that its intent declares."""

    cycle: int
    plan: QueryList
    intent: Intent


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the cycles of the shared plan write, or those of an island: see `islands.py`."""

    island: str = ""

    def of(self, cycle: int) -> str:
        """The folder that a cycle writes to."""
        return f"segments/{cycle:012d}.{self.island}" if self.island else f"segments/{cycle:012d}"


def folder_in(path: str) -> str:
    """The folder of the cycle, or of the query, that a file was written for."""
    return "/".join(path.split("/")[:2])


def states_of(last: Commit, plan: QueryList) -> dict[str, StreamState]:
    """How far each stream of the plan had come."""
    return {
        each.name: last.streams.get(each.name, StreamState(number))
        for each, number in zip(plan.streams, plan.stream_numbers, strict=True)
    }


def of_present_streams(last: Commit, plan: QueryList) -> Commit:
    """The last commit without streams that are gone, or were created anew under their name."""
    number_of = {each.name: number for each, number in zip(plan.streams, plan.stream_numbers, strict=True)}
    streams = {name: state for name, state in last.streams.items() if number_of.get(name) == state.number}
    gone = last.streams.keys() - streams.keys()
    logs = {log for name in gone for log in (LogId(LogKind.STREAM, name), LogId(LogKind.PARTIALS, name))}
    logs |= {LogId(LogKind.RUNNING, LogId(LogKind.STREAM, name)) for name in gone}
    return _without_logs(replace(last, streams=streams), logs)


def with_tables(last: Commit, tables: Mapping[str, Segment]) -> Commit:
    """The last commit with the rows that tables have now, and without what was joined from rows that they had."""
    logs = {LogId(LogKind.TABLE, name): (snapshot,) for name, snapshot in tables.items()}
    gone = {log for log, kept in last.logs.items() if log.is_table and logs.get(log) != kept}
    kept = _without_logs(last, gone)
    return replace(kept, logs={**kept.logs, **logs})


def _without_logs(last: Commit, gone: Collection[LogId]) -> Commit:
    """A commit without some logs, and without what was joined from their rows."""
    network = {name: each for name, each in last.network.items() if not set(each.legs) & set(gone)}
    dropped = set(gone) | (last.network.keys() - network.keys())
    logs = {log: kept for log, kept in last.logs.items() if log not in dropped}
    return replace(last, logs=logs, network=network)


def running_queries(plan: QueryList, last: Commit, cycle: int) -> dict[str, RunningQuery]:
    """The plan's queries with their starts: recorded in the last commit, or now."""
    largest = {name: state.largest for name, state in last.streams.items()}
    queries = {}
    for each, number in zip(plan.queries, plan.query_numbers, strict=True):
        known = last.queries.get(each.name)
        same = known is not None and known.number == number
        queries[each.name] = RunningQuery(each, known.start if same and known else QueryStart(number, cycle, largest))
    return queries


def event_time_after(commit: Commit, plan: QueryList) -> EventTime:
    """The event time of a plan's queries after a commit that knows them."""
    largest = {name: state.largest for name, state in commit.streams.items()}
    known = [each for each in plan.queries if each.name in commit.queries]
    queries = {each.name: RunningQuery(each, commit.queries[each.name].start) for each in known}
    return EventTime(commit.cycle, largest, largest, queries)


def continued(last: Commit, queries: Mapping[str, RunningQuery]) -> Commit:
    """The last commit as far as it concerns queries that go on: not those dropped, or created anew under their name."""
    going_on = {
        name: state
        for name, state in last.queries.items()
        if name in queries and queries[name].start.number == state.number
    }
    answers = {LogId(LogKind.ANSWERS, name) for name in last.queries.keys() - going_on.keys()}
    gone = {str(last.queries[name].number) for name in last.queries.keys() - going_on.keys()}
    snapshots = {place: path for place, path in last.snapshots.items() if place.partition(".")[0] not in gone}
    answered = {name: last.answered[name] for name in going_on}
    late = {name: count for name, count in last.late.items() if name in going_on}
    kept = replace(last, queries=going_on, answered=answered, late=late, snapshots=snapshots)
    return _without_logs(kept, answers)


def garbage(last: Commit, commit: Commit) -> tuple[str, ...]:
    """What the last commit needed and this one does not: whole folders of cycles, or files in those that live on."""
    old, live = last.paths, commit.paths
    islands = {key: each.commit.cycle for key, each in commit.islands.items()}
    written = {Folders(key).of(cycle) for key, cycle in {"": commit.cycle, **islands}.items()}
    gone = {folder_in(path) for path in old} | written
    gone -= {folder_in(path) for path in live}
    for folder in written:
        if not any(path.startswith(f"{folder}/streams") for path in live):
            # Rows that were written to be judged, in a stream of which only partials are kept.
            old = old | {f"{folder}/streams"}
    return tuple(sorted(gone | {path for path in old - live if folder_in(path) not in gone}))
