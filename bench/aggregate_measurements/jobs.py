"""What a contestant is to do, and the child process that does it: `python -m bench.aggregate_measurements.<name>`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench import contest, report
from bench.aggregate_measurements.workload import LARGEST_SLIDE, MOST_SLIDES, TOPICS, AggregateQuery, Topic, draw

#: The number of queries that are run over the small files, and whose answers are compared.
CHECKED = 12


@dataclass(frozen=True)
class Job:
    """What a contestant is to do; it goes to the child as JSON."""

    folder: str
    """The files to read, and where the small ones are, and where their answers are to go."""
    small: str
    answers: str
    count: int
    topic: str = "readings"
    literals: int = 9
    largest_slide: int = LARGEST_SLIDE
    most_slides: int = MOST_SLIDES
    numbers: Sequence[int] | None = None
    """Which of the queries are run; all if nothing is said."""
    checks: int = CHECKED
    """How many are run over the small files."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> Topic:
        return TOPICS[self.topic]

    def queries(self) -> list[AggregateQuery]:
        drawn = self._drawn(self.count)
        return drawn if self.numbers is None else [drawn[number] for number in self.numbers]

    def checked(self) -> list[AggregateQuery]:
        """The queries whose answers are compared: the same ones for every contestant."""
        return self._drawn(self.checks)

    def _drawn(self, count: int) -> list[AggregateQuery]:
        return draw(self.about, count, self.literals, largest_slide=self.largest_slide, most_slides=self.most_slides)


def run(contestant: str, job: Job, python: str = sys.executable) -> dict[str, Any]:
    """Run a contestant in a process of its own and give its result."""
    report.progress(f"  {contestant}: {job.count:,} queries")
    with contest.Child(f"bench.aggregate_measurements.{contestant}", python) as child:
        return child.do(asdict(job))


def serve(contestant: Callable[[Job], Mapping[str, Any]]) -> None:
    """Do the jobs that come by standard input; for the child."""
    contest.serve(lambda fields: contestant(Job(**fields)))
