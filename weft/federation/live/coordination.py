"""The coordinator as a process: requests in, decisions into the log.

All that it has decided is in the log; of its own it keeps only how far its mailbox was read, and how far providers
have answered. A request has an identity that its entry carries: one that is read again, because the coordinator died
before it had noted it, is not carried out again.

    join       a site is there              -> SiteJoined (and SiteLeft before it, if it has lost what it had)
    statement  CREATE …, DROP … at a site   -> Declared, QueryCreated, QueryDropped
    move       a query shall go elsewhere   -> QueriesMoved
    plan       what a round would move      -> QueriesMoved, if it is to be carried out
    explain, status, picture                   answered, nothing changes
    progress   how far a provider is, alive, stopped, sample: heard and remembered

A provider that is silent for three heartbeats has failed. Its queries are routed like new ones, from where its answers
are with the broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.algebra import Query, Stream, View
from weft.federation import FederationError
from weft.federation.distribution.coordinator import Coordinator, explained, plan_text
from weft.federation.distribution.model import network_of
from weft.federation.distribution.topology import Topology
from weft.federation.live import messages
from weft.federation.live.coordinator_requests import ScriptRefused, check_script
from weft.federation.live.federation_view import picture, status_of
from weft.federation.live.ledger import StandingQuery, feeding_begins
from weft.federation.live.placing import Placing
from weft.federation.live.site_directory import Mailbox, Role
from weft.federation.live.transport import Transport
from weft.loom.registration import Outcome, Registration
from weft.sql import Problem, SqlError, dialect, split, statements
from weft.sql.binder import bind_or_repeat


class Coordination(Role):
    """Answers what sites ask, and decides."""

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        transport: Transport,
        *,
        patience: float = 30.0,
        every: float | None = None,
        release_every: int = 20,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """A provider that is silent for longer than the `patience`, in seconds, has failed.

        With `every`, a round of redistribution is planned and carried out every `every` seconds. After each
        `release_every` batches, their owners hear which ones they may delete.
        """
        self.topology = topology
        self.network = network_of(topology)
        through = "through (site TEXT PRIMARY KEY, place INTEGER NOT NULL)"
        super().__init__(transport, directory / "coordinator.db", [through])
        self._mailbox = Mailbox(transport, self._store, messages.COORDINATOR, may_begin_late=True)
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
        #: The plan of a round that was shown last, behind its budget, and who was there and where queries ran then.
        self._shown: tuple[tuple[float | None, list[str], dict[int, str]], dict[str, Any]] | None = None
        self._follower.catch_up()
        self._ledger = self._follower.ledger
        self.placing = Placing(self.network, self._ledger)

    def step(self) -> bool:
        """Answer the next message, and see to sites that are silent; whether there was a message."""
        self._follower.catch_up()
        found = self._mailbox.next()
        if found is not None:
            number, message = found
            self._answer(message)
            self._mailbox.read(number)
        else:
            self._give_up_silent_providers()
            self._release()
            self._begin_round()
        return found is not None

    # --- messages -------------------------------------------------------------------------------------------------

    def _answer(self, message: messages.SiteMessage) -> None:
        match message.kind:
            case "alive":
                self._hear(message["site"])
            case "stopped":
                self._stopped[message["site"]] = message["reason"]
                self._say(f"{message['site']} has stopped: {message['reason']}")
            case "progress":
                site = message["site"]
                self._hear(site)
                self._through[site] = max(message["through"], self._through.get(site, 0))
                self._store.rows("INSERT OR REPLACE INTO through VALUES (?, ?)", site, self._through[site])
                self.placing.worked(site, message["seconds"], self._clock())
            case "sample":
                self.placing.rates[message["stream"]] = message["rate"]
                self.placing.samples[message["stream"]] = message.rows
            case _:
                self._reply(message)

    def _reply(self, message: messages.SiteMessage) -> None:
        """Carry a request out and answer it. What is wrong with it is the answer then."""
        answers: dict[str, Callable[[messages.SiteMessage], dict[str, Any]]] = {
            "join": self._join,
            "statement": self._statement,
            "move": self._move,
            "plan": self._plan,
            "explain": lambda request: {
                "said": [explained(self.placing.coordinator, self._ledger.query(request["query"]).name)]
            },
            "status": lambda _: {"status": self._status()},
            "picture": lambda _: {"svg": picture(self.topology, self._ledger, self._coordinator())},
        }
        try:
            if message.kind not in answers:
                raise FederationError(f"the coordinator does not know what '{message.kind}' is; is it older than you?")
            fields = {"ok": True, **answers[message.kind](message)}
        except SqlError as error:
            fields = {"ok": False, "error": error.render(message["text"])}
        except ScriptRefused as refused:
            fields = {"ok": False, "error": str(refused), "registration": refused.registration.to_text()}
        except FederationError as error:
            fields = {"ok": False, "error": str(error)}
        identity = message["id"]
        messages.send(self._transport, messages.reply_mailbox(identity), f"reply/{identity}", "reply", fields)

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

    def _join(self, message: messages.SiteMessage) -> dict[str, Any]:
        site = message["site"]
        if message["id"] in self._ledger.done:
            return {}
        if site not in self.topology.number:
            problem = f"there is no site '{site}' in the topology: add it there, and start the coordinator again"
            self._say(problem)
            raise FederationError(problem)
        self._hear(site)
        if site in self._ledger.members and message["new"] and site in self.network.number:
            # It has lost what it had: the provider that takes its queries over feeds them again, perhaps itself.
            self._leave(site)
        self._append(messages.SiteJoined(message["id"], site))
        self._say(f"{site} has joined")
        return {}

    def _give_up_silent_providers(self) -> None:
        now = self._clock()
        for site in self.placing.present:
            silent = now - self._heard.setdefault(site, now)
            if silent > self._patience and len(self.placing.present) > 1:
                self._say(f"{site} has not been heard for {silent:.0f} s: its queries go elsewhere")
                self._leave(site)

    def _leave(self, site: str) -> None:
        """A provider is not there any more. Its queries go on behind the last place that its answers are known to.

        That goes for those, too, that it was to hand over, or that were dropped, and that it had not done with.
        """
        targets = self.placing.without(site)
        another = next((each for each in self.placing.present if each != site), site)
        moves = []
        for standing in self._ledger.queries.values():
            mine = [reached for stay, reached in standing.unfinished(self._through) if stay.provider == site]
            if mine:
                current = standing.provider if standing.provider != site else another
                target = current if standing.ended is not None else targets.get(standing.name, current)
                moves.append(messages.Handover(standing.name, standing.birth, site, target, mine[0]))
        self._append(messages.SiteLeft(site, tuple(moves)))

    # --- statements ----------------------------------------------------------------------------------------------

    def _statement(self, message: messages.SiteMessage) -> dict[str, Any]:
        """Run the statements of a script: all of them, or none if one cannot be carried out.

        A request that was begun, by a coordinator that died, was found good then, and is carried out to its end.
        """
        site, text = message["at"], message["text"]
        if site not in self.topology.number:
            raise FederationError(f"there is no site '{site}' in the topology")
        pieces = [(f"{message['id']}/{number}", piece) for number, piece in enumerate(split(text))]
        done = self._ledger.done
        notes: tuple[Problem, ...] = ()
        if not any(identity in done for identity, _ in pieces):
            report = check_script(text, self._ledger, site, self.network, self.placing.present)
            if not report.ok:
                raise ScriptRefused(Registration((), report.problems, report.good_count, report.skipped))
            notes = report.notes
        outcomes = []
        for identity, piece in pieces:
            if identity in done:
                outcomes.append(Outcome("done already"))
                continue
            try:
                statement = bind_or_repeat(dialect.parse(piece.text), self._ledger.names, piece.text)
                outcomes.append(Outcome(self._execute(identity, site, piece.text, statement)))
            except SqlError as error:
                raise error.shifted(piece.start) from None
        return {"registration": Registration(tuple(outcomes), good_count=len(pieces), notes=notes).to_text()}

    def _execute(self, identity: str, site: str, text: str, statement: statements.Statement) -> str:
        match statement:
            case statements.Create(Query() as query):
                provider, why = self.placing.route(query, site)
                # It reads answers where they are given: whatever it reads comes together, if need be.
                parents = StandingQuery(query, site, 0, ()).parents
                self._carry_out(f"{identity}/parents", dict.fromkeys(parents, provider))
                self._append(messages.QueryCreated(identity, query.name, site, provider, text))
                return why
            case statements.Drop("QUERY", name):
                standing = self._ledger.query(name)
                self._append(messages.QueryDropped(identity, standing.name))
                return f"query {standing.name} dropped"
            case statements.NoChange(reason):
                return reason
            case statements.Create(Stream() as stream):
                said = f"stream {stream.name} created, at {site}"
            case statements.Create(View(name)):
                said = f"view {name} created"
            case statements.Drop("STREAM" | "VIEW" as kind, name):
                said = f"{kind.lower()} {name} dropped"
            case _:
                raise AssertionError(f"a script with {statement} was found good")
        self._append(messages.Declared(identity, site, text))
        return said

    # --- moving --------------------------------------------------------------------------------------------------

    def _move(self, message: messages.SiteMessage) -> dict[str, Any]:
        ledger, target = self._ledger, message["target"]
        if message["id"] in ledger.done:
            return {"said": ["done already"]}
        if target not in self.placing.present:
            there = ", ".join(self.placing.present)
            raise FederationError(f"'{target}' is no provider that takes part; there are {there}")
        standing = ledger.query(message["query"])
        if standing.provider == target:
            return {"said": [f"{standing.name} runs at {target} already"]}
        move = self.placing.coordinator.move(standing.name, target)
        self._carry_out(message["id"], {standing.name: target})
        return {"said": [f"{standing.name} goes from {move.source} to {target}; that saves {move.saves:,.0f}"]}

    def _plan(self, message: messages.SiteMessage) -> dict[str, Any]:
        """Show what a round would move; or carry out what was shown last, if it still fits."""
        if message["id"] in self._ledger.done:
            return {"said": ["done already"], "moves": []}
        budget = message.fields.get("budget")
        key = budget, self.placing.present, {each.birth: each.provider for each in self._ledger.running()}
        shown, self._shown = self._shown, None
        if not message["apply"]:
            plan = self._planned(budget)
            self._shown = key, plan
            return plan
        if shown is not None and shown[0] != key and shown[0][0] == budget:
            raise FederationError(
                "queries or providers have come, gone or moved since the plan was shown, so nothing was moved; "
                "look at the new plan: weft federation plan"
            )
        plan = shown[1] if shown is not None and shown[0] == key else self._planned(budget)
        self._carry_out(message["id"], {each["query"]: each["target"] for each in plan["moves"]})
        return plan

    def _planned(self, budget: float | None = None) -> dict[str, Any]:
        """Plan a round, with the queries that read one another's answers kept together."""
        coordinator = self.placing.coordinator
        plan = coordinator.plan(budget)
        together = self.placing.with_families({each.query: each.target for each in plan.moves})
        moves = [coordinator.move(query, target) for query, target in together.items()]
        names = ("query", "source", "target", "saves")
        listed = [{name: getattr(each, name) for name in names} for each in moves if each.source != each.target]
        return {"said": [plan_text(plan)], "moves": listed}

    def _begin_round(self) -> None:
        """Move what a round of redistribution moves, when it is time for one."""
        if self._every is None or not self.placing.present or self._clock() < self._last_round + self._every:
            return
        self._last_round = self._clock()
        plan = self._planned()
        if plan["moves"]:
            self._say(*plan["said"])
            moves = {each["query"]: each["target"] for each in plan["moves"]}
            self._carry_out(f"round/{self._ledger.place}", moves)

    def _carry_out(self, identity: str, targets: dict[str, str]) -> None:
        moves = []
        for query, target in self.placing.with_families(targets).items():
            standing = self._ledger.query(query)
            if standing.provider != target:
                moves.append(messages.Handover(query, standing.birth, standing.provider, target))
        if moves:
            self._append(messages.QueriesMoved(identity, tuple(moves)))

    def _coordinator(self) -> Coordinator | None:
        """The coordinator that decides; None if no provider has joined."""
        return self.placing.coordinator if self.placing.present else None

    def _status(self) -> dict[str, Any]:
        states = {site: self._state_of(site) for site in self._ledger.members}
        return status_of(self._ledger, self._coordinator(), self._through, self.placing.rates, states)

    def _append(self, entry: messages.Entry) -> None:
        self._follower.append(lambda: entry)

    def _release(self) -> None:
        """Tell the owners of streams now and then which batches no query can need again."""
        ledger = self._ledger
        batches = sum(len(record.marks) for record in ledger.streams.values())
        if batches < self._released + self._release_every:
            return
        self._released = batches
        reached = {each.birth: [at for _, at in each.unfinished(self._through)] for each in ledger.queries.values()}
        unfinished = {birth: min(places) for birth, places in reached.items() if places}
        begins = feeding_begins(ledger, unfinished)
        for name, record in ledger.streams.items():
            reading = (begin for birth, begin in begins.items() if name in ledger.queries[birth].reads)
            needed = min(reading, default=ledger.place)
            before, mailbox = record.count_at(needed), messages.source_mailbox(record.owner)
            fields = {"stream": name, "before": before}
            messages.send(self._transport, mailbox, f"release/{name}/{before}", "release", fields)
