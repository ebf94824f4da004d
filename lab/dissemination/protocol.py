"""How nodes reorganise many trees at once without getting in each other's way: messages, and what they change.

A node that reorganises tree A moves children of its children. They must keep still meanwhile, in all trees, since what
is saved depends on how busy they are. So a token of a tree does this at each node it comes to:

    TOKEN         the node asks all its children in the tree to HOLD
    HOLD          a free child promises to keep still and names its own children (ACK); a busy one refuses (NACK)
    ADOPT, DROP   if all promised, the node chooses a reorganisation and carries it out, one move after the other: first
                  the new parent takes the subtree, then the old one lets go (DONE after each); nobody is ever cut off
    TOKEN         to all children, which also ends their promises; RELEASE to a child that was moved away

After a refusal the node leaves the tree as it is in this round, and passes the token on. So nobody waits longer for a
reply than messages take. Nodes wait for nothing else but the end of a promise, which is in the hands of the node it was
given to. That one may have given a promise itself while it was asking, but only to a node with a higher number, so a
chain of promises ends: at a node that can go on. (In the protocol as it was published a busy child keeps the question
for later. Then three nodes can wait for each other: a for c's answer, c for b's, and b for a's token.)

Messages between two nodes arrive in the order in which they were sent. A state is a value: `receive` gives the next one
and what is to be sent, so that all orders of events can be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from lab.dissemination.rules import Move


class Kind(Enum):
    TOKEN = "token"
    HOLD = "hold"
    ACK = "ack"
    NACK = "nack"
    ADOPT = "adopt"
    DROP = "drop"
    DONE = "done"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Message:
    """From one node to another, about one tree. `nodes` are the sender's children in an ACK, and the node to take or to
    let go in ADOPT and DROP."""

    kind: Kind
    tree: int
    sender: int
    receiver: int
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """A node with a token, while its children answer and after that while it reorganises."""

    unanswered: int
    promised: tuple[tuple[int, tuple[int, ...]], ...] = ()  # children that keep still, and their children
    is_refused: bool = False
    #: ADOPT and DROP still to be sent, one at a time; None until a reorganisation was chosen.
    steps: tuple[Message, ...] | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """To keep still until the node that asked sends a token or a release of the tree."""

    tree: int
    to: int


@dataclass(frozen=True, slots=True)
class Node:
    """What one node knows. Its number decides who may go first; `children` are those of each tree that it is in."""

    number: int
    children: Mapping[int, tuple[int, ...]]
    promise: Promise | None = None
    asking: Mapping[int, Asking] = field(default_factory=dict)
    #: Tokens and completed questions that wait for the end of a promise.
    tokens: tuple[int, ...] = ()
    ready: tuple[int, ...] = ()

    @property
    def is_idle(self) -> bool:
        return self.promise is None and not self.asking and not self.tokens and not self.ready


@dataclass(frozen=True, slots=True)
class View:
    """What a node decides from: its children that keep still, and their children."""

    tree: int
    apex: int
    grandchildren: Mapping[int, tuple[int, ...]]


#: Chooses the moves of a reorganisation, or none.
Decide = Callable[[View], tuple[Move, ...]]


def begin(node: Node, tree: int, decide: Decide) -> tuple[Node, list[Message]]:
    """The root of a tree starts a round."""
    return receive(node, Message(Kind.TOKEN, tree, node.number, node.number), decide)


def receive(node: Node, message: Message, decide: Decide) -> tuple[Node, list[Message]]:
    """What a message makes of a node, and the messages that it sends."""
    step = _Step(node, decide)
    step.take(message)
    step.go_on()
    return step.node, step.sent


def is_busy(node: Node, asked_by: int) -> bool:
    """Whether a node refuses to keep still: it has promised that already, is moving nodes itself, or is about to and
    has the higher number."""
    is_moving = any(asking.steps is not None for asking in node.asking.values())
    return node.promise is not None or is_moving or (bool(node.asking) and asked_by < node.number)


class _Step:
    """One message, worked off."""

    def __init__(self, node: Node, decide: Decide) -> None:
        self.node, self.decide = node, decide
        self.sent: list[Message] = []

    def take(self, message: Message) -> None:
        tree, sender = message.tree, message.sender
        match message.kind:
            case Kind.TOKEN:
                self._end_promise(tree, sender)
                self._token(tree)
            case Kind.RELEASE:
                self._end_promise(tree, sender)
            case Kind.HOLD:
                if is_busy(self.node, sender):
                    self._send(Kind.NACK, tree, sender)
                else:
                    self.node = replace(self.node, promise=Promise(tree, sender))
                    self._send(Kind.ACK, tree, sender, self.node.children[tree])
            case Kind.ACK | Kind.NACK:
                self._answer(message)
            case Kind.ADOPT:
                self._set_children(tree, (*self.node.children[tree], *message.nodes))
                self._send(Kind.DONE, tree, sender)
            case Kind.DROP:
                kept = tuple(child for child in self.node.children[tree] if child not in message.nodes)
                self._set_children(tree, kept)
                self._send(Kind.DONE, tree, sender)
            case Kind.DONE:
                self._next_step(tree)

    def go_on(self) -> None:
        """Takes up what had to wait, as far as no promise forbids it."""
        while self.node.promise is None and self.node.ready:
            tree, *ready = self.node.ready
            self.node = replace(self.node, ready=tuple(ready))
            self._reorganise(tree)
        while self.node.promise is None and self.node.tokens:
            tree, *tokens = self.node.tokens
            self.node = replace(self.node, tokens=tuple(tokens))
            self._token(tree)

    def _token(self, tree: int) -> None:
        if self.node.promise is not None:
            if tree not in self.node.tokens:
                self.node = replace(self.node, tokens=(*self.node.tokens, tree))
            return
        children = self.node.children[tree]
        if tree in self.node.asking or not children:
            return
        self._set_asking(tree, Asking(len(children)))
        for child in children:
            self._send(Kind.HOLD, tree, child)

    def _answer(self, message: Message) -> None:
        asking = self.node.asking[message.tree]
        if message.kind is Kind.ACK:
            asking = replace(asking, promised=(*asking.promised, (message.sender, message.nodes)))
        else:
            asking = replace(asking, is_refused=True)
        self._set_asking(message.tree, replace(asking, unanswered=asking.unanswered - 1))
        if asking.unanswered == 1:
            if self.node.promise is None:
                self._reorganise(message.tree)
            else:
                self.node = replace(self.node, ready=(*self.node.ready, message.tree))

    def _reorganise(self, tree: int) -> None:
        asking = self.node.asking[tree]
        # A child that was moved to another parent since it promised is not ours to move.
        still = {child: below for child, below in asking.promised if child in self.node.children[tree]}
        moves = () if asking.is_refused else self.decide(View(tree, self.node.number, still))
        steps = []
        for each in moves:
            steps.append(Message(Kind.ADOPT, tree, self.node.number, each.new_parent, (each.node,)))
            steps.append(Message(Kind.DROP, tree, self.node.number, each.parent, (each.node,)))
        self._set_asking(tree, replace(asking, steps=tuple(steps)))
        self._next_step(tree)

    def _next_step(self, tree: int) -> None:
        """Sends the next ADOPT or DROP, or carries it out here; after the last, the token goes on."""
        while True:
            asking = self.node.asking[tree]
            if not asking.steps:
                self._finish(tree, asking)
                return
            step, *later = asking.steps
            self._set_asking(tree, replace(asking, steps=tuple(later)))
            if step.receiver != self.node.number:
                self.sent.append(step)
                return
            children = self.node.children[tree]
            if step.kind is Kind.ADOPT:
                self._set_children(tree, (*children, *step.nodes))
            else:
                self._set_children(tree, tuple(child for child in children if child not in step.nodes))

    def _finish(self, tree: int, asking: Asking) -> None:
        left = {known: value for known, value in self.node.asking.items() if known != tree}
        self.node = replace(self.node, asking=left)
        children = self.node.children[tree]
        for child, _ in asking.promised:
            if child not in children:
                self._send(Kind.RELEASE, tree, child)
        for child in children:
            self._send(Kind.TOKEN, tree, child)

    def _end_promise(self, tree: int, to: int) -> None:
        if self.node.promise == Promise(tree, to):
            self.node = replace(self.node, promise=None)

    def _set_children(self, tree: int, children: tuple[int, ...]) -> None:
        self.node = replace(self.node, children={**self.node.children, tree: children})

    def _set_asking(self, tree: int, asking: Asking) -> None:
        self.node = replace(self.node, asking={**self.node.asking, tree: asking})

    def _send(self, kind: Kind, tree: int, receiver: int, nodes: tuple[int, ...] = ()) -> None:
        self.sent.append(Message(kind, tree, self.node.number, receiver, nodes))
