"""The coordinator as a process: requests in, decisions into the log.

What it decides comes from `weft.federation.distribution.coordinator`, which the simulator asks too, through
`placing.py`. All that it has decided is in the log, so a coordinator that starts again reads the log and knows it; of
its own it keeps only how far its box was read, and how far providers have answered. A request has an identity that its
entry carries: one that is read again, because the coordinator died between appending and noting it, is found in the log
and not carried out again.

    join       a site is there              -> Joined (and Left before it, if it has lost what it had)
    statement  CREATE …, DROP … at a site   -> Declared, Created, Dropped
    move       a query shall go elsewhere   -> Moved
    plan       what a round would move      -> Moved, if it is to be carried out
    explain, status, picture                   answered, nothing changes
    progress   how far a provider is, alive, stopped, sample: heard and remembered

A provider that is not heard for so long, three heartbeats, has failed. Its queries are routed like new ones, from where
its answers are with the broker. What it may still do has no effect: homes take answers from who the log says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.algebra import Query
from weft.federation.distribution.coordinator import Move, explained, summed_up
from weft.federation.distribution.model import network_of
from weft.federation.distribution.topology import Topology
from weft.federation.federation_errors import FederationError
from weft.federation.live.coordinator_requests import ScriptRefused, check_script, refused_kind
from weft.federation.live.federation_view import picture, status_of
from weft.federation.live.handover import feeding_begins
from weft.federation.live.ledger import LOG_TABLE, Follower, Standing
from weft.federation.live.messages import (
    Created,
    Declared,
    Dropped,
    Entry,
    Handover,
    Joined,
    Left,
    Letter,
    Moved,
    letter_bytes,
)
from weft.federation.live.placing import Measured, Placing
from weft.federation.live.role_store import Mailbox, Store
from weft.federation.live.transport import COORDINATOR, Wire, reply_box, source_box
from weft.loom.registration import Outcome, Registration
from weft.sql import Problem, SqlError, dialect, split, statements
from weft.sql.binder import bind_or_repeat


@dataclass(frozen=True)
class Shown:
    """A plan of a round as it was shown, and which providers and queries there were then."""

    budget: float | None
    standing: dict[str, Any]
    summary: str
    moves: list[Move]

    @property
    def targets(self) -> dict[str, str]:
        """Where each query goes that moves."""
        return {each.query: each.target for each in self.moves}

    def as_data(self) -> dict[str, Any]:
        """The plan as an answer to the one who asked for it."""
        moves = [
            {"query": each.query, "source": each.source, "target": each.target, "saves": each.saves}
            for each in self.moves
        ]
        return {"said": [self.summary], "moves": moves}


class Coordination:
    """Holds the tree of coordinators and decides. `step` answers what has come."""

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        wire: Wire,
        *,
        patience: float = 30.0,
        every: float | None = None,
        release_every: int = 20,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """A provider that is silent for longer than the `patience`, in seconds, has failed.

        With `every`, a round of redistribution is planned and carried out every so many seconds. Whenever there are
        `release_every` more batches, their owners are told which ones they may let go of.
        """
        self.topology = topology
        self.network = network_of(topology)
        self._wire = wire
        through = "through (site TEXT PRIMARY KEY, place INTEGER NOT NULL)"
        self._store = Store(directory / "coordinator.db", [LOG_TABLE, through])
        self._follower = Follower(wire, self._store)
        self._box = Mailbox(wire, self._store, COORDINATOR, may_begin_late=True)
        self._patience = patience
        self._every = every
        self._release_every = release_every
        self._last_round = clock()
        self._clock = clock
        self._say = say
        self._heard: dict[str, float] = {}
        #: Why a site has stopped, if it said so and was not heard since.
        self._stopped: dict[str, str] = {}
        self._through: dict[str, int] = dict(self._store.rows("SELECT site, place FROM through"))
        self._released = 0
        self._is_unsure = False
        self._shown: Shown | None = None
        self._follower.catch_up()
        self.placing = Placing(self.network, self._follower)

    def close(self) -> None:
        self._store.close()
        self._wire.close()

    def step(self) -> bool:
        """Answer the next letter, and see to sites that are silent; whether there was a letter."""
        self._follower.catch_up()
        if self._is_unsure:
            # The broker was away in the middle of something: the log says what has come of it.
            self.placing.read_anew()
        self._is_unsure = True
        found = self._box.next()
        if found is not None:
            number, letter = found
            self._answer(letter)
            self._box.read(number)
        else:
            self._bury_the_silent()
            self._release()
            self._begin_round()
        self._is_unsure = False
        return found is not None

    # --- letters -------------------------------------------------------------------------------------------------

    def _answer(self, letter: Letter) -> None:
        match letter.kind:
            case "alive":
                self._hear(letter["site"])
            case "stopped":
                self._stopped[letter["site"]] = letter["reason"]
                self._say(f"{letter['site']} has stopped: {letter['reason']}")
            case "progress":
                self._hear(letter["site"])
                self._through[letter["site"]] = max(letter["through"], self._through.get(letter["site"], 0))
                place = self._through[letter["site"]]
                self._store.rows("INSERT OR REPLACE INTO through VALUES (?, ?)", letter["site"], place)
                self.placing.worked(letter["site"], letter["seconds"], self._clock())
            case "sample":
                self.placing.sampled(letter["stream"], Measured(letter["rate"], letter.rows))
            case "join":
                self._join(letter["id"], letter["site"], is_new=letter["new"])
            case _:
                self._reply(letter)

    def _reply(self, letter: Letter) -> None:
        """Carry a request out and answer it. What is wrong with it is the answer then."""
        answers: dict[str, Callable[[Letter], dict[str, Any]]] = {
            "statement": self._statement,
            "move": self._move,
            "plan": self._plan,
            "explain": self._explain,
            "status": lambda _: {"status": self._status()},
            "picture": lambda _: {"svg": picture(self.topology, self._follower.ledger, self.placing.found_brain)},
        }
        try:
            if letter.kind not in answers:
                raise FederationError(f"the coordinator does not know what '{letter.kind}' is; is it older than you?")
            fields = {"ok": True, **answers[letter.kind](letter)}
        except SqlError as error:
            fields = {"ok": False, "error": error.render(letter["text"])}
        except ScriptRefused as refused:
            fields = {"ok": False, "error": str(refused), "registration": refused.registration.to_text()}
        except FederationError as error:
            fields = {"ok": False, "error": str(error)}
        box = reply_box(letter["id"])
        self._wire.put(box, f"reply/{letter['id']}", letter_bytes(Letter("reply", fields)))

    # --- sites ---------------------------------------------------------------------------------------------------

    def _hear(self, site: str) -> None:
        self._heard[site] = self._clock()
        self._stopped.pop(site, None)

    def _state_of(self, site: str) -> str:
        """Whether a member runs, as far as it was heard."""
        if site in self._stopped:
            return f"stopped: {self._stopped[site]}"
        silent = self._clock() - self._heard.setdefault(site, self._clock())
        return f"not heard for {silent:.0f} s" if silent > self._patience else "runs"

    def _join(self, identity: str, site: str, *, is_new: bool) -> None:
        if identity in self._follower.ledger.done:
            return
        if site not in self.topology.number:
            problem = f"there is no site '{site}' in the topology: add it there, and start the coordinator again"
            self._say(problem)
            refusal = letter_bytes(Letter("reply", {"ok": False, "error": problem}))
            self._wire.put(reply_box(identity), f"reply/{identity}", refusal)
            return
        self._hear(site)
        if site in self._follower.ledger.members and is_new and site in self.network.number:
            # It has lost what it had: whoever takes its queries over feeds them again, perhaps itself.
            self._leave(site)
        self._append(Joined(identity, site))
        if site in self.network.number:
            self.placing.joined(site)
        self._say(f"{site} has joined")

    @property
    def present(self) -> list[str]:
        """The providers that take part."""
        return self.placing.present

    def _bury_the_silent(self) -> None:
        now = self._clock()
        for site in self.present:
            silent = now - self._heard.setdefault(site, now)
            if silent > self._patience and len(self.present) > 1:
                self._say(f"{site} has not been heard for {silent:.0f} s: its queries go elsewhere")
                self._leave(site)

    def _leave(self, site: str) -> None:
        """A provider is not there any more. Its queries go on behind the last place that its answers are known to.

        That goes for those, too, that it was to hand over, or that were dropped, and that it had not done with.
        """
        targets = self.placing.without(site)
        somebody = next((each for each in self.present if each != site), site)
        moves = []
        for standing in self._follower.ledger.queries.values():
            mine = [reached for stay, reached in standing.unfinished(self._through) if stay.provider == site]
            if mine:
                current = standing.provider if standing.provider != site else somebody
                target = current if standing.ended is not None else targets.get(standing.name, current)
                moves.append(Handover(standing.name, standing.birth, site, target, mine[0]))
        self._append(Left(site, tuple(moves)))
        self.placing.settle(targets)

    # --- statements ----------------------------------------------------------------------------------------------

    def _statement(self, letter: Letter) -> dict[str, Any]:
        """Run the statements of a script: all of them, or none if one cannot be carried out.

        A request that was begun, by a coordinator that died, was found good then, and is carried out to its end.
        """
        site, text = letter["at"], letter["text"]
        if site not in self.topology.number:
            raise FederationError(f"there is no site '{site}' in the topology")
        pieces = [(f"{letter['id']}/{number}", piece) for number, piece in enumerate(split(text))]
        done = self._follower.ledger.done
        notes: tuple[Problem, ...] = ()
        if not any(identity in done for identity, _ in pieces):
            report = check_script(text, self._follower.ledger, site, self.network, self.present)
            if not report.ok:
                raise ScriptRefused(Registration((), report.problems, report.good_count, report.skipped))
            notes = report.notes
        outcomes = []
        for identity, piece in pieces:
            if identity in done:
                outcomes.append(Outcome("done already"))
                continue
            try:
                statement = bind_or_repeat(dialect.parse(piece.text), self._follower.ledger.names, piece.text)
                outcomes.append(Outcome(self._execute(identity, site, piece.text, statement)))
            except SqlError as error:
                raise error.shifted(piece.start) from None
        return {"registration": Registration(tuple(outcomes), good_count=len(pieces), notes=notes).to_text()}

    def _execute(self, identity: str, site: str, text: str, statement: statements.Statement) -> str:
        match statement:
            case statements.CreateStream(stream):
                self._append(Declared(identity, site, text))
                return f"stream {stream.name} created, at {site}"
            case statements.Drop("STREAM", name):
                self._append(Declared(identity, site, text))
                return f"stream {name} dropped"
            case statements.CreateView(name):
                self._append(Declared(identity, site, text))
                return f"view {name} created"
            case statements.CreateQuery(query):
                return self._create(identity, site, text, query)
            case statements.Drop("QUERY", name):
                standing = self._follower.ledger.query(name)
                self._append(Dropped(identity, standing.name))
                self.placing.brain.dropped([standing.name])
                return f"query {standing.name} dropped"
            case statements.Drop("VIEW", name):
                self._append(Declared(identity, site, text))
                return f"view {name} dropped"
            case statements.NoChange(reason):
                return reason
        raise refused_kind()

    def _create(self, identity: str, site: str, text: str, query: Query) -> str:
        provider, why = self.placing.route(query, site)
        # It reads answers where they are given: whatever it reads comes together, if need be.
        self._carry_out(f"{identity}/parents", dict.fromkeys(Standing(query, site, 0, ()).parents, provider))
        self._append(Created(identity, query.name, site, provider, text))
        return why

    # --- moving --------------------------------------------------------------------------------------------------

    def _move(self, letter: Letter) -> dict[str, Any]:
        ledger, target = self._follower.ledger, letter["target"]
        if letter["id"] in ledger.done:
            return {"said": ["done already"]}
        if target not in self.present:
            raise FederationError(f"'{target}' is no provider that takes part; there are {', '.join(self.present)}")
        standing = ledger.query(letter["query"])
        if standing.provider == target:
            return {"said": [f"{standing.name} runs at {target} already"]}
        move = self.placing.brain.move(standing.name, target)
        self._carry_out(letter["id"], {standing.name: target})
        return {"said": [f"{standing.name} goes from {move.source} to {target}; that saves {move.saves:,.0f}"]}

    def _plan(self, letter: Letter) -> dict[str, Any]:
        """Show what a round would move; or carry out what was shown last, if it still fits."""
        budget = letter.fields.get("budget")
        if not letter["apply"]:
            self._shown = self._planned(budget)
            return self._shown.as_data()
        if letter["id"] in self._follower.ledger.done:
            return {"said": ["done already"], "moves": []}
        shown, self._shown = self._shown, None
        if shown is None or shown.budget != budget:
            shown = self._planned(budget)
        elif shown.standing != self._standing():
            raise FederationError(
                "queries or providers have come, gone or moved since the plan was shown, so nothing was moved; "
                "look at the new plan: weft federation plan"
            )
        self._carry_out(letter["id"], shown.targets)
        return shown.as_data()

    def _planned(self, budget: float | None) -> Shown:
        """Plan a round, with the queries that read one another's answers kept together."""
        brain = self.placing.brain
        plan = brain.plan(budget)
        together = self.placing.with_families({each.query: each.target for each in plan.moves})
        moves = [brain.move(query, target) for query, target in together.items()]
        moves = [each for each in moves if each.source != each.target]
        return Shown(budget, self._standing(), summed_up(plan), moves)

    def _standing(self) -> dict[str, Any]:
        """Which providers take part, and where each query runs."""
        return {"at": {each.birth: each.provider for each in self._follower.ledger.running()}, "there": self.present}

    def _begin_round(self) -> None:
        """Move what a round of redistribution moves, when it is time for one."""
        if self._every is None or not self.present or self._clock() < self._last_round + self._every:
            return
        self._last_round = self._clock()
        plan = self.placing.brain.plan()
        if plan.moves:
            self._say(summed_up(plan))
            self._carry_out(f"round/{self._follower.ledger.place}", {each.query: each.target for each in plan.moves})

    def _carry_out(self, identity: str, targets: dict[str, str]) -> None:
        ledger = self._follower.ledger
        together = self.placing.with_families(targets)
        going = {query: target for query, target in together.items() if ledger.query(query).provider != target}
        if going:
            standing = {query: ledger.query(query) for query in going}
            moves = tuple(
                Handover(query, standing[query].birth, standing[query].provider, target)
                for query, target in going.items()
            )
            self._append(Moved(identity, moves))
            self.placing.settle(going)

    def _explain(self, letter: Letter) -> dict[str, Any]:
        standing = self._follower.ledger.query(letter["query"])
        return {"said": [explained(self.placing.brain, standing.name)]}

    def _status(self) -> dict[str, Any]:
        placing = self.placing
        states = {site: self._state_of(site) for site in self._follower.ledger.members}
        return status_of(self._follower.ledger, placing.found_brain, self._through, placing.measured, states)

    # --- knowledge -----------------------------------------------------------------------------------------------

    def _append(self, entry: Entry) -> None:
        self._follower.append(lambda: entry)

    def _release(self) -> None:
        """Tell the owners of streams now and then which batches nobody can need again."""
        ledger = self._follower.ledger
        if len(ledger.marks) < self._released + self._release_every:
            return
        self._released = len(ledger.marks)
        unfinished = {
            each.birth: min(reached for _, reached in each.unfinished(self._through))
            for each in ledger.queries.values()
            if any(each.unfinished(self._through))
        }
        begins = feeding_begins(ledger, unfinished)
        for name, record in ledger.streams.items():
            needed = min(
                (begin for birth, begin in begins.items() if name in ledger.queries[birth].reads), default=ledger.place
            )
            before = next((mark.number for mark in record.marks if mark.place > needed), len(record.marks))
            fields = {"stream": name, "before": before}
            letter = letter_bytes(Letter("release", fields))
            self._wire.put(source_box(record.owner), f"release/{name}/{before}", letter)
