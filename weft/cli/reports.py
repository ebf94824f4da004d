"""`weft results`, `status` and `explain`: what a project answers, how far it is, and how its queries are evaluated."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.algebra import Query, Stream
from weft.algebra.properties import clock_type
from weft.cli import output
from weft.explain.query_text import clock_text
from weft.plan.facts import NOT_MEASURED
from weft.sql.binder import EXPLAIN_FORMATS
from weft.sql.check import check
from weft.sql.problems import did_you_mean

if TYPE_CHECKING:
    from weft.catalog import Catalog, Representative
    from weft.runtime.state.commits import Commit


def results(
    query: Annotated[str, typer.Argument(help="The query's name.")],
    project: output.ProjectOption = Path(),
    last: Annotated[int, typer.Option(help="How many of the newest answers.")] = 20,
    as_json: output.JsonOption = False,
) -> None:
    """Show the newest answers of a query; with --json, one JSON object per line."""
    from weft.runtime.sinks.results import DamagedAnswers
    from weft.runtime.sinks.shed_notices import notice_sentences, notices_in

    with output.reporting_failures(as_json):
        with output.open_project(project, write=False) as loom:
            found = loom.catalog.find(query)
            if not isinstance(found, Query):
                hint = did_you_mean(query, [each.name for each in loom.catalog.queries()], "weft queries lists them")
                raise output.CommandFailure(f"query '{query}' is unknown; {hint}")
            with warnings.catch_warnings(record=True) as damages:
                warnings.simplefilter("always", DamagedAnswers)
                answers = loom.results(found.name)
        for each in damages:
            typer.echo(f"weft: {each.message}", err=True)

        shown = answers.slice(max(0, answers.num_rows - last))
        if as_json:
            from weft.runtime.sinks.sinks import json_lines

            typer.echo(json_lines(shown).decode(), nl=False)
            for sentence in notice_sentences(notices_in(answers)):
                typer.echo(sentence, err=True)
            return
        rows = [[output.value_text(value) for value in row.values()] for row in shown.to_pylist()]
        output.print_table(answers.column_names, rows)
        output.print_text(f"the last {shown.num_rows} of {answers.num_rows:,} answers")
        for sentence in notice_sentences(notices_in(answers)):
            output.print_text(sentence)


#: What `status` counts of the rows of a stream, and of what is left out of it.
_ROWS, _LEFT_OUT = ("rows", "late", "bad"), ("shed", "missing_files", "bad_files")


def status(project: output.ProjectOption = Path(), as_json: output.JsonOption = False) -> None:
    """Show how far the streams have come and how many answers there were, also while another process runs them."""
    with output.reporting_failures(as_json):
        document = _document(project)
    if as_json:
        output.print_json(document)
        return
    running = f"running, by {document['writer']}" if document["writer"] else "not running"
    cycle = "no cycle yet" if document["cycle"] is None else f"cycle {document['cycle']} committed"
    output.print_text(f"{running}; {cycle}")
    if document["groups"]:
        output.print_text(f"subscribers of other machines know the project as {document['project']}")
    for sentence in _last_cycle(document["measured"]["cycles"]):
        output.print_text(sentence)
    if document["streams"]:
        rows = [
            (
                name,
                *(f"{each[kind]:,}" for kind in _ROWS),
                each["watermark"] or "none yet",
                f"{100 * each['kept']:.3g} %",
                *(f"{each[kind]:,}" for kind in _LEFT_OUT),
            )
            for name, each in document["streams"].items()
        ]
        output.print_table(
            ("stream", "rows", "late", "bad", "watermark", "kept", "shed", "missing files", "bad files"), rows
        )
    if document["queries"]:
        counts = [(name, f"{n:,}", f"{document['late'][name]:,}") for name, n in document["queries"].items()]
        output.print_table(("query", "answers", "late rows"), counts)
    for name, error in document["errors"].items():
        output.print_text(f"query {name} is in error since {error['since']}: {error['sentence']}")
        tried = "once" if error["tries"] == 1 else f"{error['tries']} times"
        output.print_text(f"  {error['waiting']}; tried {tried}, again at {error['next_try']}")
    for name, lost in document["lost"].items():
        output.print_text(f"query {name} lacks {lost['what']} of the cycles {lost['first']} to {lost['last']}")
    if document["groups"]:
        published = [
            (name, str(each["epoch"]), f"{each['members']:,}", f"{each['answers']:,}", f"{each['late']:,}")
            for name, each in document["groups"].items()
        ]
        output.print_table(("group", "epoch", "members", "rows published", "late rows"), published)


def _document(project: Path) -> dict[str, Any]:
    from weft.catalog import find_writer
    from weft.runtime.stages.statistics import measured
    from weft.runtime.state.commits import START, WHOLE, errors_of, last_commit

    with output.open_project(project, write=False) as loom:
        catalog, writer = loom.catalog, find_writer(loom.directory)
        commit = last_commit(loom.directory) or START
        streams = {each.name: each for each in catalog.streams()}
        members, numbers = catalog.members(), catalog.query_numbers()
        queries = {each.name: numbers[each.name] for each in catalog.queries() if each.name not in members}
        return {
            "project": catalog.project,
            "writer": None if writer is None else writer.name,
            "cycle": None if commit is START else commit.cycle,
            "streams": {
                name: {
                    **{kind: getattr(state, kind) for kind in _ROWS},
                    "watermark": _watermark(state.largest, streams.get(name)),
                    "kept": state.kept / WHOLE,
                    **{kind: getattr(state, kind) for kind in _LEFT_OUT},
                }
                for name, state in commit.streams.items()
            },
            "queries": {name: _own(commit, "answered", name, number) for name, number in queries.items()},
            "late": {name: _own(commit, "late", name, number) for name, number in queries.items()},
            "groups": _groups(catalog, commit),
            "errors": {
                name: {
                    "sentence": each.sentence,
                    "since": _instant(each.since),
                    "tries": each.tries,
                    "next_try": _instant(each.next_try),
                    "waiting": _waiting(commit, name),
                }
                for name, each in sorted(errors_of(commit).items())
            },
            "lost": _lost(commit),
            "measured": measured(catalog).document(),
        }


def _waiting(commit: Commit, name: str) -> str:
    waiting = commit.waiting.get(name)
    if waiting is not None and waiting.trouble is not None:
        return f"answers of {_cycles(len(waiting.answers))} wait for its sink"
    kept = sum(each.cycle > commit.of_query(name).cycle for each in commit.held)
    return f"rows of {_cycles(kept)} are kept for it"


def _cycles(count: int) -> str:
    return f"{count} cycle{'s' * (count != 1)}"


def _lost(commit: Commit) -> dict[str, dict[str, Any]]:
    """The queries that lack something for good, because more had to be kept for them than `error_retention`."""
    answers = {name: ("answers", each.lost) for name, each in commit.waiting.items()}
    rows = {name: ("the rows", each.lost) for each in commit.islands.values() for name in each.members}
    return {
        name: {"what": what, "first": lost.first, "last": lost.last}
        for name, (what, lost) in sorted([*answers.items(), *rows.items()])
        if lost is not None
    }


def _instant(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "never"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _groups(catalog: Catalog, commit: Commit) -> dict[str, dict[str, Any]]:
    """The groups whose rows are published: their newest epochs, how many members take them, and what is evaluated."""
    members = Counter(each.document["spans"][-1]["stream"] for each in catalog.deliveries.itineraries())
    epochs: dict[str, list[Representative]] = {}
    for each in sorted(catalog.representatives(), key=lambda each: each.stream):
        epochs.setdefault(each.stream, []).append(each)
    return {
        stream: {
            "epoch": max(each.epoch for each in listed),
            "members": members[stream],
            "evaluated_as": [each.name for each in listed],
            "answers": sum(_counted(commit, "answered", each.name) for each in listed),
            "late": sum(_counted(commit, "late", each.name) for each in listed),
        }
        for stream, listed in epochs.items()
    }


def _own(commit: Commit, counts: str, name: str, number: int) -> int:
    """What a commit counts of a query; one of that name that was dropped does not count."""
    state = commit.of_query(name).queries.get(name)
    return _counted(commit, counts, name) if state is not None and state.number == number else 0


def _counted(commit: Commit, counts: str, name: str) -> int:
    return int(getattr(commit.of_query(name), counts).get(name, 0))


def _last_cycle(cycles: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How long the newest cycle took, and where its time went."""
    for newest in cycles[-1:]:
        rows = sum(each["rows"] for each in newest["streams"].values())
        jobs = "" if newest["jobs"] is None else f" in {newest['jobs']} Spark job{'s' * (newest['jobs'] != 1)}"
        stages = ", ".join(f"{stage} {seconds:.3f}" for stage, seconds in newest["stages"].items())
        yield f"cycle {newest['cycle']} took {newest['seconds']:.3f} s for {rows:,} rows{jobs}: {stages}"
        if newest["behind"]:
            yield f"cycles are {newest['behind']:.1f} s behind the time between them"


def _watermark(largest: int | None, stream: Stream | None) -> str | None:
    return None if largest is None or stream is None else clock_text(largest - stream.delay, clock_type(stream))


def explain(
    query: Annotated[str | None, typer.Argument(help="A query's name; all of them if left out.")] = None,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="The project's directory (default: here).")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Explain the queries of a file, not of a project.")
    ] = None,
    as_json: output.JsonOption = False,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="text, verbose, json, mermaid, dot or svg (default: text)."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to a file, not to the terminal.")
    ] = None,
) -> None:
    """Show how a query, or all of them, are evaluated, and what they share. Spark need not run."""
    if file is not None and project is not None:
        raise typer.BadParameter("give --project or --file, not both")
    format_ = _format(format_, as_json)
    as_json = format_ == "JSON"
    with output.reporting_failures(as_json):
        if file is not None:
            from weft.explain.explained import explained

            known = _queries_of_file(file, as_json)
            text = explained(known, _chosen(known, query), NOT_MEASURED, format_)
        else:
            with output.open_project(project or Path(), write=False) as loom:
                chosen = _chosen(loom.catalog.queries(), query)
                text = loom.explain(chosen.name if chosen is not None else None, format=format_)
        if target is not None:
            target.write_text(f"{text}\n", encoding="utf-8")
    if target is not None:
        return
    if format_ == "TEXT":
        output.print_text(text)
    else:
        typer.echo(text)


def _format(named: str | None, as_json: bool) -> str:
    """What EXPLAIN calls the format that is asked for."""
    format_ = (named or ("json" if as_json else "text")).upper()
    if format_ not in EXPLAIN_FORMATS:
        listed = ", ".join(EXPLAIN_FORMATS).lower()
        raise typer.BadParameter(f"there is no format '{named}'; give one of {listed}")
    if as_json and format_ != "JSON":
        raise typer.BadParameter(f"give --json or --format {named}, not both")
    return format_


def _queries_of_file(file: Path, as_json: bool) -> Sequence[Query]:
    script = output.read_script(file)
    report = check(script)
    if not report.ok:
        output.show_report(report, script, file, as_json)
    return report.queries


def _chosen(known: Sequence[Query], name: str | None) -> Query | None:
    """The query that is named; None if all of them are meant."""
    if name is None:
        return None
    for each in known:
        if each.name.lower() == name.lower():
            return each
    names = [each.name for each in known]
    advice = did_you_mean(name, names, f"there are {', '.join(names[:8])}" if names else "there are none yet")
    raise output.CommandFailure(f"query '{name}' is unknown; {advice}")
