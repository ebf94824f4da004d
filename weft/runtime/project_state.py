"""The state directory of a project, for the one engine that writes it: what is committed, and recovery at the start.

A copy of the catalog is kept in it (see `weft/catalog/database.py`). A catalog that is older than the state is refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from weft.catalog import COPY_FILE, Catalog
from weft.runtime.sinks.results import AnswerFiles
from weft.runtime.spark.engine_errors import EngineError, StorageError
from weft.runtime.stages.cycle_state import Step
from weft.runtime.state.checkpoint import CHECKPOINT, Checkpoint, lists_of
from weft.runtime.state.checkpoint import FOLDER as FILE_LISTS
from weft.runtime.state.checksums import check, damaged, opened, sealed
from weft.runtime.state.commits import START, Commit, Intent, held_rows, read_commit
from weft.runtime.state.continuity import folder_in, garbage
from weft.runtime.state.storage import Storage, local_uri

#: The folders in which each cycle, or each query, has a folder of its own.
_FOLDERS = ("segments", "held", "waiting")

#: Commits kept behind the newest one.
_KEPT = 20

#: Characters that Spark would take for a pattern in a path.
_PATTERNS = frozenset("*?[]{}")


def _commit(cycle: int) -> str:
    return f"commits/{cycle:012d}.json"


def _intent(cycle: int) -> str:
    return f"intents/{cycle:012d}.json"


class ProjectState:
    """The commits of a project, its files, and the copy of its catalog."""

    def __init__(self, spark: SparkSession, catalog: Catalog, root: str, on_step: Step) -> None:
        """Open the state, and remove what an attempt that never committed has left behind.

        EngineError is raised unless the catalog and all files are those that the last commit was made with.
        """
        if _PATTERNS & set(root):
            raise EngineError(
                f"{root} cannot hold state: Spark takes * ? [ ] {{ }} in a path for a pattern; use another directory"
            )
        self._spark = spark
        self._catalog = catalog
        self._on_step = on_step
        #: The changes of the catalog that were copied last.
        self._copied: int | None = None
        self.storage = Storage.at(spark, root, is_private=True)
        self._check_owner(catalog.project)
        names = [name for name in self.storage.names("commits") if name.removesuffix(".json").isdigit()]
        newest = f"commits/{max(names, default='')}"
        #: The newest commit.
        self.last = read_commit(self.storage.read_bytes(newest), self.storage.path(newest)) if names else START
        _check_catalog(catalog, self.last, self.intent)
        for path in sorted(self.last.paths):
            check(self.storage.path(path), self.last.seals[path], self.storage.seals(path))
        self.files = AnswerFiles(self.storage, catalog.settings().max_results, self.last.seals)
        self._sweep()

    def _check_owner(self, project: str) -> None:
        """A state directory belongs to one project; mixing two would corrupt both."""
        if self.storage.exists("owner.json"):
            if self.storage.read_record("owner.json").get("project") != project:
                raise StorageError(
                    f"{self.storage.root} holds the state of another project; give this one a state directory of "
                    "its own, or bring back the catalog that the state belongs to: weft init DIR --recover"
                )
        elif self.storage.names("commits"):
            raise damaged(self.storage.path("owner.json"), "is missing, which says whose the commits are")
        else:
            self.storage.write_record("owner.json", {"project": project})

    def _sweep(self) -> None:
        live = {folder_in(path) for path in self.last.paths}
        for folder in _FOLDERS:
            for name in self.storage.names(folder):
                if f"{folder}/{name}" not in live:
                    self.storage.delete(f"{folder}/{name}")
        lists = lists_of(self.last.offsets) | (lists_of(self.intent.offsets) if self.intent else set())
        for name in self.storage.names(FILE_LISTS):
            if f"{FILE_LISTS}/{name}" not in lists:
                self.storage.delete(f"{FILE_LISTS}/{name}")

    # -- the copy of the catalog --------------------------------------------------------------------------------------

    def keep_catalog(self) -> None:
        """Copy the catalog, unless it is as it was when it was copied last."""
        changes = self._catalog.changes
        if changes != self._copied:
            self.storage.write_bytes(COPY_FILE, self._catalog.copied())
            self._copied = changes

    # -- intents and commits ------------------------------------------------------------------------------------------

    @property
    def intent(self) -> Intent | None:
        """The intent of the cycle after the newest commit, if it was begun."""
        name = _intent(self.last.cycle + 1)
        return self.storage.read_record(name, Intent) if self.storage.exists(name) else None

    def declare(self, intent: Intent) -> None:
        """Write down what is decided of the cycle after the newest commit."""
        self.storage.write_record(_intent(self.last.cycle + 1), intent)

    def commit(self, commit: Commit) -> Commit:
        """Make a cycle's record true; with the seals of its files, which come back in it."""
        self.keep_catalog()
        return self._publish(commit, "rename")

    def _publish(self, commit: Commit, step: str) -> Commit:
        commit, name = self._sealed(commit), _commit(commit.cycle)
        self.storage.draft(name, sealed(name, commit))
        self._on_step(step, commit.cycle)
        # The rename inside is the one instant at which the cycle becomes true.
        self.storage.publish(name)
        self.last = commit
        old = commit.cycle - _KEPT
        for file in (_commit(old), _intent(old)) if old >= 0 else ():
            self.storage.delete(file)
        return commit

    def _sealed(self, commit: Commit) -> Commit:
        """A commit with the seals of all files that it names, which are on disk then."""
        parts = [commit, *(each.commit for each in commit.islands.values())]
        rows = {each.path: each.rows for part in parts for segments in part.logs.values() for each in segments}
        rows |= {held_rows(each.cycle): each.rows for each in commit.held}
        known, seals_of = self.last.seals, self.storage.seals_of_written
        seals = {path: known.get(path) or seals_of(path, rows.get(path)) for path in sorted(commit.paths)}
        return replace(commit, seals={**seals, **self.files.seals})

    def commit_anew(self, commit: Commit) -> None:
        """Put a record in the place of the last one, which differs from it in nothing that later cycles read."""
        last = self.last
        commit = self._publish(commit, "rename anew")
        self._on_step("after anew", commit.cycle)
        self.tidy(last)

    def tidy(self, before: Commit) -> None:
        """Delete the files that only the commit before the newest one needed."""
        self.files.committed()
        lists = lists_of(before.offsets) - lists_of(self.last.offsets)
        for path in (*garbage(before, self.last), *sorted(lists)):
            self.storage.delete(path)

    # -- before a start -----------------------------------------------------------------------------------------------

    def fit_sources(self, *, named: bool) -> str | None:
        """Make Spark's checkpoint fit the newest commit, and the cycle that was begun after it; what was done.

        To change between named and unnamed sources is refused: Spark knows them so for the life of a checkpoint.
        """
        if self.storage.exists("sources.json"):
            _refuse_other_sources(self.storage.read_record("sources.json")["named"], named)
        elif self.last.cycle >= 0:
            raise damaged(self.storage.path("sources.json"), "is missing")
        else:
            self.storage.write_record("sources.json", {"named": named})
        if self.last.cycle < 0 and not self.storage.names(CHECKPOINT):
            return None
        interval = int(str(self._spark.conf.get("spark.sql.streaming.fileSource.log.compactInterval")))
        begun = None if self.intent is None else self.intent.offsets
        checkpoint = Checkpoint(self.storage, interval)
        return checkpoint.fit(self.last.cycle, self.last.offsets, begun, may_write=named)


def _check_catalog(catalog: Catalog, last: Commit, intent: Intent | None) -> None:
    """Raise EngineError unless the catalog has the plans of the last commit and of the cycle that was begun after it.

    StorageError is raised if it knows of later cycles than the state. A state that was removed begins afresh, and the
    catalog forgets what earlier cycles measured.
    """
    plans = [(last.cycle, last.plan, last.plan_digest)] if last.cycle >= 0 else []
    if intent is not None:
        plans.append((last.cycle + 1, intent.plan, intent.plan_digest))
    for cycle, number, digest in plans:
        if catalog.plan_digest(number) != digest:
            raise EngineError(
                f"{catalog.path} is an older copy, or that of another run: cycle {cycle} had plan {number}, which it "
                f"does not have; bring the newer one back, or the copy that the state keeps, with: "
                f"weft init {catalog.path.parent} --recover"
            )
    newest = max((each.cycle for each in catalog.latest_statistics().values()), default=-1)
    if last.cycle < 0 <= newest:
        catalog.record_statistics(last.cycle, {}, keep=1)
    elif last.cycle < newest:
        raise StorageError(
            f"{catalog.path} knows of cycle {newest}, the state is at {last.cycle}: commits are missing, or an older "
            "copy of the state was put back; restore the whole project directory from one copy, or remove its state "
            "directory to begin afresh"
        )


def refuse_other_sources(directory: Path, *, named: bool) -> None:
    """Raise EngineError if the project in a directory has run with sources that are not `named` alike."""
    known = directory / "state" / "sources.json"
    if known.exists():
        _refuse_other_sources(opened(known.read_bytes(), str(known))["named"], named)


def _refuse_other_sources(known: bool, named: bool) -> None:
    if known != named:
        raise EngineError(
            f"this state was made {'with' if named else 'without'} streams from Python DataFrames; "
            "keep it so, or use another project directory"
        )


def state_directory(directory: Path) -> str:
    """Where a project's state is kept unless it says otherwise."""
    return local_uri(directory / "state")
