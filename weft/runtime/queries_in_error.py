"""The queries in error: how they are found and put there, and how they are tried again between two cycles.

A query is in error since its evaluation failed (it is in an island then, see `islands.py`), or since its sink did not
take its answers. All that it misses is held for it. It is tried again after a pause, or at once if a user says so.

What the shared plan fails because of is found by evaluating it again. That leaves no trace, so it may be done as often
as it takes: the queries are halved until those are known that fail without the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from weft.plan.query_list import QueryList, restricted, tables_of, with_read
from weft.runtime.islands import (
    Islands,
    island_plan,
    islands_in,
    new_islands,
    sentence_of,
    shared_part,
    without_passed_cycles,
)
from weft.runtime.plans import Plans
from weft.runtime.project_state import ProjectState
from weft.runtime.sinks.publishing import is_published
from weft.runtime.sinks.sinks import SinkOutbox, of_present_queries
from weft.runtime.sources.batches import Batch
from weft.runtime.spark.engine_errors import MemoryLimit
from weft.runtime.spark.spark_failures import is_attributable, reason_of
from weft.runtime.state.commits import Commit, Island, Segment, Waiting, errors_of, lost_with
from weft.runtime.state.continuity import CycleSpec

#: How many held cycles of an island are evaluated between two cycles.
CAUGHT_UP_AT_ONCE = 10

#: Seconds between two looks whether a query is due.
_LOOK_EVERY = 1.0

#: After this many failures without a success, the failure counts as one of all queries.
_FAILURES_IN_A_ROW = 8


@dataclass(eq=False)
class QueriesInError:
    """Puts queries in error, and tries them again."""

    state: ProjectState
    plans: Plans
    islands: Islands
    outbox: SinkOutbox
    say: Callable[[str], None]
    #: The queries that users want to be tried again now; other threads add to them.
    _resumed: set[str] = field(default_factory=set)
    _wanted: threading.Event = field(default_factory=threading.Event)

    @property
    def last(self) -> Commit:
        return self.state.last

    def resume(self, query: str) -> bool:
        """Try a query again at the next occasion; False if it is not in error."""
        if query not in errors_of(self.last):
            return False
        self._resumed.add(query)
        self._wanted.set()
        return True

    def due(self) -> set[str]:
        """The queries that are to be tried again now."""
        return {name for name, each in errors_of(self.last).items() if each.is_due or name in self._resumed}

    def wait(self) -> None:
        """Wait a moment, or until a user wants a query to be tried again."""
        self._wanted.wait(_LOOK_EVERY)
        self._wanted.clear()

    def try_again(self, names: Collection[str], most: int | None = None) -> None:
        """Try some queries that are in error again, between two cycles; the last commit is written again.

        At most `most` of the cycles that are held for an island are evaluated; the others come next time.
        """
        self._resumed -= set(names)
        running = self.islands.catalog.running_numbers() if names else {}
        present = of_present_queries(self.last.waiting, running)
        waiting = [name for name in names if name in present and present[name].trouble is not None]
        if waiting:
            self.islands.on_step("try again", self.last.cycle)
            queries = {each.name: each for each in self.plans.stored(self.last.plan).queries}
            self.state.commit_anew(replace(self.last, waiting=self.outbox.try_again(present, queries, waiting)))
        for key, island in self.last.islands.items():
            is_running = any(running.get(name) == number for name, number in island.roots.items())
            if island.trouble is not None and is_running and not set(names).isdisjoint(island.members):
                self._catch_up(key, running, most)

    def _catch_up(self, key: str, running: Mapping[str, int], most: int | None) -> None:
        """Evaluate the cycles that are held for an island, until it has caught up or fails again."""
        done = 0
        while (island := self.last.islands[key]).trouble is not None:
            last = self.last
            cycle = next((each.cycle for each in last.held if each.cycle > island.commit.cycle), None)
            if cycle is None:
                # What it will read in the next cycle.
                plan = self.plans.current()
                parts = [island_plan(plan, each)[0] for each in islands_in(plan, {"": island}).values()]
                for wrong in self._tables(plan, parts)[1].values():
                    self._commit_island(key, replace(island, trouble=island.trouble.again(wrong)))
                    return
                self._commit_island(key, replace(island, trouble=None))
                self.say(f"{_listed(island.members)} no longer in error")
            elif done == most:
                trouble = replace(island.trouble, sentence=f"it catches up, from cycle {cycle} on", next_try=0.0)
                self._commit_island(key, replace(island, trouble=trouble))
                return
            else:
                self.islands.on_step("catch up", cycle)
                after, plan, answers = self.islands.catch_up(key, island, cycle, self.plans.stored)
                if after.commit.cycle == island.commit.cycle:
                    self._commit_island(key, after)
                    return
                present = {name: table for name, table in answers.items() if running.get(name) == plan.number_of[name]}
                if any(is_published(each) for each in plan.queries if each.name in present):
                    # Subscribers take rows in the order of cycles, and are past this one.
                    after = replace(after, lost=lost_with(after.lost, cycle))
                known = of_present_queries(self.last.waiting, running)
                self._commit_island(key, after, self.deliver(cycle, plan, present, known, key))
                done += 1

    def _commit_island(self, key: str, island: Island, waiting: Mapping[str, Waiting] | None = None) -> None:
        last = self.last
        islands = {**last.islands, key: island}
        self.state.commit_anew(
            without_passed_cycles(replace(last, islands=islands, waiting=last.waiting if waiting is None else waiting))
        )
        self.islands.committed(islands)

    def deliver(
        self,
        cycle: int,
        plan: QueryList,
        answers: Mapping[str, pa.Table],
        waiting: Mapping[str, Waiting],
        island: str = "",
    ) -> Mapping[str, Waiting]:
        """Hand the answers of a cycle to their sinks; what waits for sinks after that."""
        queries, number_of = {each.name: each for each in plan.queries}, plan.number_of
        delivered = {name: table for name, table in answers.items() if not is_published(queries[name])}
        for name, table in delivered.items():
            waiting = self.outbox.deliver(waiting, queries[name], number_of[name], table, cycle)
        self.state.files.write(cycle, delivered, island)
        return waiting

    # -- tables -------------------------------------------------------------------------------------------------------

    def evict_unreadable(self) -> None:
        """Evict the queries that read tables which cannot be read, as the engine starts and before any row comes."""
        last = self.last
        if last.cycle < 0 or self.state.intent is not None:
            return
        plan = self.plans.current()
        _, evicted = self.found_tables(plan)
        if evicted:
            self.announce(evicted)
            self.state.commit_anew(replace(last, islands={**last.islands, **new_islands(plan, last, evicted)}))

    def found_tables(self, plan: QueryList) -> tuple[dict[str, Segment], dict[str, str]]:
        """The snapshots of tables that a cycle needs, and the queries of the shared plan that read one which has none,
        each with what is wrong."""
        shared = shared_part(plan, self.last.islands)
        beside = [
            island_plan(plan, each)[0] for each in islands_in(plan, self.last.islands).values() if each.trouble is None
        ]
        snapshots, wrong = self._tables(plan, (shared, *beside))
        evicted: dict[str, str] = {}
        for query in shared.queries if wrong else ():
            read = tables_of(query)
            sentences = [wrong[each.name] for each in shared.tables if each.name in read and each.name in wrong]
            if sentences:
                evicted[query.name] = sentences[0]
        return snapshots, evicted

    def _tables(self, plan: QueryList, parts: Iterable[QueryList]) -> tuple[dict[str, Segment], dict[str, str]]:
        """The snapshots of the tables that parts of a plan read, by name, and what is wrong with those without one."""
        needed = {each.name for part in parts for each in part.tables}
        numbered = zip(plan.table_numbers, plan.tables, strict=True)
        return self.islands.tables.found({number: each for number, each in numbered if each.name in needed})

    def announce(self, evicted: Mapping[str, str]) -> None:
        for sentence in dict.fromkeys(evicted.values()):
            names = [name for name, each in evicted.items() if each == sentence]
            self.say(
                f"{_listed(names)} in error: {sentence}; rows are kept for what reads it, and all other queries go on"
            )


def _listed(names: Collection[str]) -> str:
    """Some queries, as the start of a sentence about what they are."""
    quoted = ", ".join(f"'{name}'" for name in names)
    return f"query {quoted} is" if len(names) == 1 else f"queries {quoted} are"


# -- which queries are to blame ---------------------------------------------------------------------------------------


def evicted(islands: Islands, error: Exception, batch: Batch | None, spec: CycleSpec, last: Commit) -> dict[str, str]:
    """The queries to evict because the shared plan failed, each with what is wrong; none if it was of the moment.

    Raises the error if it is no query's fault.
    """
    plan = spec.plan
    if not is_attributable(error):
        raise error
    if isinstance(error, MemoryLimit):
        named = [each.name for each in plan.queries if each.name in error.needing_most]
        if named:
            return dict.fromkeys(named, sentence_of(error))
    try:
        islands.hold_rows(batch, spec.cycle)
        rows = islands.held(spec.cycle, plan)
    except Exception as unreadable:
        # The rows themselves cannot be read, or not be written down: that is no query's fault.
        raise error from unreadable
    good: set[int] = set()

    def evaluate(names: Collection[str]) -> Exception | None:
        found = islands.failure(rows, replace(spec, plan=restricted(plan, with_read(plan, names))), last)
        good.update([len(names)] if found is None else [])
        return found

    culprits = failing_queries(plan, evaluate)
    if not culprits and len(plan.queries) not in good:
        raise error
    return {name: sentence_of(each) for name, each in culprits.items()}


def failing_queries(plan: QueryList, evaluate: Callable[[Collection[str]], Exception | None]) -> dict[str, Exception]:
    """The queries of a plan that fail, each with its error; none if all of them succeed by now, or fail together only.

    `evaluate` evaluates some queries, with what they read, and gives the error if they fail. A query that reads a
    culprit is none itself. If all queries fail for the same reason, or nothing does that is evaluated without any
    query, it is no query's fault, and there are no culprits.
    """
    if evaluate(()) is not None:
        return {}
    found: dict[str, Exception] = {}
    succeeded = given_up = False

    def look_into(names: Sequence[str]) -> None:
        """Find the culprits among some queries, which come after those that they read."""
        nonlocal succeeded, given_up
        left = [name for name in names if with_read(plan, {name}).isdisjoint(found)]
        if not left or given_up:
            return
        error = evaluate(left)
        if error is None:
            succeeded = True
        elif not is_attributable(error):
            raise error
        elif len(left) == 1:
            found[left[0]] = error
            given_up = not succeeded and len(found) >= _FAILURES_IN_A_ROW
        else:
            middle = len(left) // 2
            look_into(left[:middle])
            look_into(left[middle:])

    look_into([each.name for each in plan.queries])
    is_one_reason = len(found) > 1 and len({reason_of(error) for error in found.values()}) == 1
    return {} if given_up or (is_one_reason and not succeeded) else found
