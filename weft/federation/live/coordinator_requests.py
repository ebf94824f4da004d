"""Requests to the coordinator: asking over the transport, and the check of a script before it is carried out."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weft.algebra import Query, Stream, Table, View
from weft.algebra.properties import leaves
from weft.federation import FederationError
from weft.federation.distribution.model import NetworkGraph
from weft.federation.live.ledger import FederationLedger
from weft.federation.live.messages import COORDINATOR, message_of, reply_mailbox, send
from weft.federation.live.transport import Transport
from weft.loom.registration import Registration
from weft.sql import statements
from weft.sql.check import CheckReport, check
from weft.sql.problems import Code


class ScriptRefused(FederationError):
    """A script has problems, and nothing of it was carried out."""

    def __init__(self, registration: Registration) -> None:
        super().__init__("; ".join(f"{each.message} ({each.hint})" for each in registration.problems))
        self.registration = registration


def check_script(
    text: str, ledger: FederationLedger, site: str, network: NetworkGraph, present: Sequence[str]
) -> CheckReport:
    """Check a script that is said at a site. Raises FederationError for what SQL allows and a federation does not."""
    report = check(text, ledger.names)
    for each in report.good:
        match each:
            case statements.Create(Stream() as stream):
                _check_stream(stream, ledger, site, network)
            case statements.Create(Query() as query):
                _check_query(query, site, network, present)
            case statements.NoChange(known=Query(name)) if (home := ledger.query(name).home) != site:
                raise FederationError(
                    f"query '{name}' is registered already, and its answers go to {home}: take them there, or give "
                    "this one another name"
                )
            case statements.Create(View()) | statements.Drop("QUERY" | "VIEW" | "STREAM") | statements.NoChange():
                continue
            case _:
                raise FederationError(
                    "a federation takes CREATE and DROP of streams, views and continuous queries, and nothing else; "
                    "nothing of the script was carried out"
                )
    problems = list(report.problems)
    for at, problem in enumerate(problems):
        if problem.code is Code.ALREADY_EXISTS and problem.message.startswith("a stream called"):
            hint = "give this stream another name; a federation does not use a stream's name twice"
            problems[at] = replace(problem, hint=hint)
    return replace(report, problems=tuple(problems))


def _check_stream(stream: Stream, ledger: FederationLedger, site: str, network: NetworkGraph) -> None:
    if stream.format not in ("parquet", "replay"):
        raise FederationError(
            f"stream '{stream.name}' comes from {stream.format}; in a federation streams are USING parquet or replay: "
            "write what comes into Parquet files, and let the stream read their folder"
        )
    if "path" not in dict(stream.options):
        raise FederationError(f"stream '{stream.name}' needs OPTIONS (path '…'): the folder that its files appear in")
    if site not in network.sources:
        raise FederationError(f"'{site}' is no source in the topology: say `source: true` there")
    if stream.backfill:
        raise FederationError("BACKFILL is not there in a federation: queries begin when they are created")
    if stream.name.lower() in {name.lower() for name in ledger.streams}:
        raise FederationError(
            f"a stream '{stream.name}' was dropped from this federation, and its batches are still in the log; "
            "give the new one another name"
        )


def _check_query(query: Query, site: str, network: NetworkGraph, present: Sequence[str]) -> None:
    if any(isinstance(each, Table) for each in leaves(query.relation)):
        raise FederationError(f"query '{query.name}' reads a table; in a federation queries read streams")
    if query.sink is not None and query.sink.format != "subscribers":
        raise FederationError(
            f"query '{query.name}' writes INTO {query.sink.format}; in a federation answers go to subscribers at "
            "the site where the query was created: leave INTO out, or say INTO subscribers"
        )
    if site not in network.number:
        raise FederationError(f"'{site}' has no users: create queries at a provider")
    if not present:
        raise FederationError("no provider has joined yet; start one with: weft provider")


_LOOK_EVERY = 0.05

#: Requests that change nothing. An answer to them is of no use later, so it is not waited for long.
_READING = ("status", "explain", "picture")
_READING_SECONDS = 5.0


def asked(transport: Transport, kind: str, timeout: float | None = None, **fields: Any) -> dict[str, Any]:
    """What the coordinator answers. Raises FederationError if it refuses, or does not answer in time."""
    if timeout is None:
        timeout = _READING_SECONDS if kind in _READING else 30.0
    identity = uuid.uuid4().hex
    send(transport, COORDINATOR, identity, kind, {"id": identity, **fields})
    end = time.monotonic() + timeout
    while (found := transport.take(reply_mailbox(identity), 0)) is None:
        if time.monotonic() > end:
            later = "" if kind in _READING else "; what was asked waits for it, and will be done"
            raise FederationError(
                f"the coordinator has not answered for {timeout:.0f} s{later}. Is it running? Start it with: "
                "weft coordinator"
            )
        time.sleep(_LOOK_EVERY)
    answer = message_of(found[1])
    if "registration" in answer.fields and not answer["ok"]:
        raise ScriptRefused(Registration.from_text(answer["registration"]))
    if not answer["ok"]:
        raise FederationError(answer["error"])
    return answer.fields
