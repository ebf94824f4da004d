"""Tuples on their way through nodes and network, compiled.

A node serves what arrives first come, first served: what waits before a tuple is known when it arrives, and so is the
moment at which the node is through with it. A tuple of a stream is one piece of work for a node, whatever number of
units there take it. The filters of all of them on one attribute are one group filter, which is paid for once per tuple;
joins are paid for one by one. Rows that go on to a unit of the same node go on at once, others are sent.

The network is a number of links, each of which sends one message after the other: one link if all nodes share the
medium, one for each node if there is a switch.

Whether a row passes an operator is a hash of the row and the operator. So every unit makes the same of every row
wherever it runs, and the answers of a run do not depend on its placement.

A unit moves like this. From the moment of redirection its inputs go to the new node, where they are kept. What was sent
to the old node before arrives there, and is worked off in turn; then the state is sent; when it is there, what was kept
is worked off at the new node. Which tuples of its own stream a unit takes at the new node is told by their numbers:
those from `since` on, and the old node takes those before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

# What a message is about.
SOURCE, SEND, STREAM, ROW, AD_HOC, ARRIVED, DRAINED, INSTALLED = range(8)

#: An operator: nanoseconds for a row; the attribute of a filter, −1 for a join; of 2⁶⁴ hashes as many as pass; and an
#: identity, which is the same in whatever units the operator comes.
OPERATOR = np.dtype([("cost", "i8"), ("attribute", "i8"), ("passes", "u8"), ("identity", "i8")])

#: A unit: its operators are `first` to `last`; what passes them enters unit `downstream` (−1: it is an answer) at the
#: operator `enters`; rows of (query, stream) number `path` begin with it (−1: none do). Its inputs go to the node `at`,
#: and `ready` says whether it is there; `leaving` still works off what it got before (−1: no node does). `kept_first`
#: and `kept_last` are the messages that wait for it (−1: none). `state` are the bytes that move with it; `spent` is
#: the work, in nanoseconds, that ever came for it, and of a group filter its part.
UNIT = np.dtype(
    [(name, "i8") for name in ("first", "last", "downstream", "enters", "path", "stream")]
    + [(name, "i8") for name in ("at", "ready", "leaving", "since", "kept_first", "kept_last")]
    + [("state", "f8"), ("spent", "f8")]
)

#: A stream: units that begin with it are `first` to `last` of the list of beginnings; the node that it comes to; the
#: number of its next tuple; tuples per second.
STREAMS = np.dtype([("first", "i8"), ("last", "i8"), ("delegate", "i8"), ("next_number", "i8"), ("rate", "f8")])

#: A node: when it will be through with all that has arrived; nanoseconds of work that ever arrived; other work, pieces
#: per second, and how many of them there were; and the tuple that was sent there last, by the instant of its birth.
NODES = np.dtype([("free_at", "i8"), ("accepted", "i8"), ("ad_hoc", "f8"), ("ad_hoc_number", "i8"), ("sent_to", "i8")])

MESSAGE = np.dtype(
    [(name, "i8") for name in ("kind", "node", "unit", "enters", "stream", "number", "born", "spent", "path", "next")]
)

#: When a message is due, and its place in the table of messages.
DUE = np.dtype([("due", "i8"), ("place", "i8")])

#: Performance ratios of answers, added up.
RATIOS = np.dtype([("sum", "f8"), ("number", "i8")])

#: A filter that a piece of work used, and what the group filter cost.
USE = np.dtype([("unit", "i8"), ("attribute", "i8"), ("cost", "i8")])

#: Messages that wait, and places for more; answers, and a checksum of which they were; units that have moved; bytes.
TALLY = np.dtype(
    [(name, "i8") for name in ("waiting", "unused", "answers", "check", "moved")]
    + [("row_bytes", "f8"), ("state_bytes", "f8")]
)

Records = NDArray[Any]

# No loop here allocates anything, so nobody has to count who uses an array; counting would take most of the time, since
# every call passes all of them.
_COMPILED = {"cache": True, "_nrt": False}

_GAP = 9_001
_AD_HOC_GAP = 9_002


class World(NamedTuple):
    """All there is, as tables of the records above."""

    operators: Records
    units: Records
    streams: Records
    beginning: NDArray[np.int64]
    nodes: Records
    links: NDArray[np.int64]
    """When each link will have sent all that it was given."""
    tally: Records
    """One record."""
    ratios: Records
    """By second and path."""
    messages: Records
    heap: Records
    unused: NDArray[np.int64]
    sharers: NDArray[np.int64]
    """Of each attribute, how many filters have used its group filter in the piece of work that a node is at."""
    uses: Records


class Constants(NamedTuple):
    seed: int
    row_bytes: float
    nanoseconds_per_byte: float
    latency: int
    ad_hoc_cost: int
    second: int


@numba.njit(inline="always", **_COMPILED)
def mixed(a, b, c):  # type: ignore[no-untyped-def]
    """64 bits that depend on all bits of three numbers (the finaliser of SplitMix64, thrice)."""
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)
    for more in (np.uint64(b), np.uint64(c)):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = (x ^ (x >> np.uint64(31))) + more * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(**_COMPILED)
def gap(a, b, c, per_second, second):  # type: ignore[no-untyped-def]
    """Nanoseconds to the next of so many per second, at random."""
    uniform = (np.float64(mixed(a, b, c) >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return max(np.int64(-np.log(uniform) / per_second * second), 1)


@numba.njit(**_COMPILED)
def push(world, due, place):  # type: ignore[no-untyped-def]
    heap, tally = world.heap, world.tally[0]
    at = tally.waiting
    tally.waiting += 1
    while at > 0:
        above = (at - 1) >> 1
        if heap[above].due <= due:
            break
        heap[at].due, heap[at].place = heap[above].due, heap[above].place
        at = above
    heap[at].due, heap[at].place = due, place


@numba.njit(**_COMPILED)
def pop(world):  # type: ignore[no-untyped-def]
    heap, tally = world.heap, world.tally[0]
    found = heap[0].place
    tally.waiting -= 1
    size = tally.waiting
    due, place = heap[size].due, heap[size].place
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1].due < heap[below].due:
            below += 1
        if heap[below].due >= due:
            break
        heap[at].due, heap[at].place = heap[below].due, heap[below].place
        at = below
    heap[at].due, heap[at].place = due, place
    return found


@numba.njit(**_COMPILED)
def take(world):  # type: ignore[no-untyped-def]
    """A place for a new message."""
    world.tally[0].unused -= 1
    return world.unused[world.tally[0].unused]


@numba.njit(**_COMPILED)
def give_back(world, place):  # type: ignore[no-untyped-def]
    world.unused[world.tally[0].unused] = place
    world.tally[0].unused += 1


@numba.njit(**_COMPILED)
def transmit(world, constants, sender, size, now):  # type: ignore[no-untyped-def]
    """Sends bytes from a node; returns when they arrive."""
    link = sender % len(world.links)
    world.links[link] = max(world.links[link], now) + np.int64(size * constants.nanoseconds_per_byte)
    return world.links[link] + constants.latency


@numba.njit(**_COMPILED)
def write(world, kind, node, unit, enters, stream, number, born, spent, path):  # type: ignore[no-untyped-def]
    """A new message; returns its place."""
    place = take(world)
    message = world.messages[place]
    message.kind, message.node, message.unit, message.enters = kind, node, unit, enters
    message.stream, message.number, message.born = stream, number, born
    message.spent, message.path, message.next = spent, path, -1
    return place


@numba.njit(**_COMPILED)
def keep(world, unit, enters, stream, number, born, spent, path):  # type: ignore[no-untyped-def]
    """A row waits at the new node for a unit that is still on its way."""
    waits = world.units[unit]
    place = write(world, ROW, waits.at, unit, enters, stream, number, born, spent, path)
    if waits.kept_first < 0:
        waits.kept_first = place
    else:
        world.messages[waits.kept_last].next = place
    waits.kept_last = place


@numba.njit(**_COMPILED)
def note_answer(world, constants, path, number, clock, born, spent):  # type: ignore[no-untyped-def]
    tally = world.tally[0]
    tally.answers += 1
    tally.check ^= np.int64(mixed(path, number, 17) >> np.uint64(1))
    second = clock // constants.second
    if second < len(world.ratios):
        world.ratios[second, path].sum += (clock - born) / spent
        world.ratios[second, path].number += 1


@numba.njit(**_COMPILED)
def evaluate(  # type: ignore[no-untyped-def]
    world, constants, used, clock, node, unit, enters, stream, number, born, spent, path
):
    """A row passes the operators of a unit, and of those after it on the same node. Returns the clock after that, and
    how many uses of group filters have been noted."""
    while True:
        here = world.units[unit]
        for at in range(here.first + enters, here.last):
            operator = world.operators[at]
            cost, attribute = operator.cost, operator.attribute
            spent += cost
            if attribute < 0:
                clock += cost
                here.spent += cost
            else:
                if world.sharers[attribute] == 0:
                    clock += cost
                world.sharers[attribute] += 1
                use = world.uses[used]
                use.unit, use.attribute, use.cost = unit, attribute, cost
                used += 1
            # A row has one number per stream, and an operator one identity: the hash is the same on every node.
            if mixed(constants.seed * 1_000_003 + stream, number, operator.identity) >= operator.passes:
                return clock, used
        if here.downstream < 0:
            note_answer(world, constants, path, number, clock, born, spent)
            return clock, used
        unit, enters = here.downstream, here.enters
        if world.units[unit].at != node or not world.units[unit].ready:
            push(world, clock, write(world, SEND, node, unit, enters, stream, number, born, spent, path))
            return clock, used


@numba.njit(**_COMPILED)
def finish(world, used, node, began, clock):  # type: ignore[no-untyped-def]
    """The node is through with a piece of work: what group filters cost is shared by those that used them."""
    for at in range(used):
        use = world.uses[at]
        world.units[use.unit].spent += use.cost / world.sharers[use.attribute]
    world.sharers[:] = 0
    world.nodes[node].free_at = clock
    world.nodes[node].accepted += clock - began


@numba.njit(**_COMPILED)
def stream_at(world, constants, node, stream, number, born, now):  # type: ignore[no-untyped-def]
    """A tuple of a stream arrives at a node: all units there that begin with it take it."""
    began = max(world.nodes[node].free_at, now)
    clock, used = began, 0
    for at in range(world.streams[stream].first, world.streams[stream].last):
        unit = world.beginning[at]
        taker = world.units[unit]
        here = taker.at == node and number >= taker.since
        if here and not taker.ready:
            keep(world, unit, 0, stream, number, born, 0, taker.path)
        elif here or (taker.leaving == node and number < taker.since):
            clock, used = evaluate(world, constants, used, clock, node, unit, 0, stream, number, born, 0, taker.path)
    finish(world, used, node, began, clock)


@numba.njit(**_COMPILED)
def source(world, constants, stream, now):  # type: ignore[no-untyped-def]
    """A tuple comes to its stream's node, which sends it once to every other node that has units beginning with it."""
    comes = world.streams[stream]
    node, number = comes.delegate, comes.next_number
    comes.next_number += 1
    for at in range(comes.first, comes.last):
        target = world.units[world.beginning[at]].at
        if target != node and world.nodes[target].sent_to != now:
            world.nodes[target].sent_to = now
            world.tally[0].row_bytes += constants.row_bytes
            due = transmit(world, constants, node, constants.row_bytes, now)
            push(world, due, write(world, STREAM, target, -1, 0, stream, number, now, 0, -1))
    for at in range(comes.first, comes.last):
        world.nodes[world.units[world.beginning[at]].at].sent_to = -1
    stream_at(world, constants, node, stream, number, now, now)


@numba.njit(**_COMPILED)
def row_at(world, constants, message, now):  # type: ignore[no-untyped-def]
    """A row arrives at a node for a unit that is there, or will be."""
    node, unit, enters, stream = message.node, message.unit, message.enters, message.stream
    number, born, spent, path = message.number, message.born, message.spent, message.path
    if world.units[unit].at == node and not world.units[unit].ready:
        keep(world, unit, enters, stream, number, born, spent, path)
        return
    began = max(world.nodes[node].free_at, now)
    clock, used = evaluate(world, constants, 0, began, node, unit, enters, stream, number, born, spent, path)
    finish(world, used, node, began, clock)


@numba.njit(**_COMPILED)
def install(world, unit, now):  # type: ignore[no-untyped-def]
    """A unit has arrived with its state: what was kept for it is its input now, in the order it came."""
    arrived = world.units[unit]
    arrived.ready = 1
    world.tally[0].moved += 1
    place, due = arrived.kept_first, now
    while place >= 0:
        following = world.messages[place].next
        push(world, due, place)
        place, due = following, due + 1
    arrived.kept_first = arrived.kept_last = -1


@numba.njit(**_COMPILED)
def next_tuple(world, constants, stream, place, now):  # type: ignore[no-untyped-def]
    """Schedules the next tuple of a stream; false if none comes."""
    comes = world.streams[stream]
    if comes.rate > 0:
        row = constants.seed * 1_000_003 + stream
        push(world, now + gap(row, comes.next_number, _GAP, comes.rate, constants.second), place)
    return comes.rate > 0


@numba.njit(**_COMPILED)
def other_work(world, constants, number, place, now):  # type: ignore[no-untyped-def]
    """A piece of other work comes to a node. Schedules the next one; false if none comes."""
    node = world.nodes[number]
    node.free_at = max(node.free_at, now) + constants.ad_hoc_cost
    node.accepted += constants.ad_hoc_cost
    if node.ad_hoc > 0:
        node.ad_hoc_number += 1
        row = constants.seed * 1_000_003 + number
        push(world, now + gap(row, node.ad_hoc_number, _AD_HOC_GAP, node.ad_hoc, constants.second), place)
    return node.ad_hoc > 0


@numba.njit(**_COMPILED)
def send(world, constants, message, place, now):  # type: ignore[no-untyped-def]
    """A row leaves a node for the node that its unit's inputs go to at this moment."""
    node, target = message.node, world.units[message.unit].at
    message.kind, message.node = ROW, target
    due = now
    if target != node:
        world.tally[0].row_bytes += constants.row_bytes
        due = transmit(world, constants, node, constants.row_bytes, now)
    push(world, due, place)


@numba.njit(**_COMPILED)
def advance(world, constants, until):  # type: ignore[no-untyped-def]
    """Lets everything happen that is due before `until`; false if it stopped for want of room for messages."""
    tally = world.tally[0]
    while tally.waiting > 0 and world.heap[0].due < until:
        if tally.unused < len(world.nodes) + len(world.uses):
            return False
        now = world.heap[0].due
        place = pop(world)
        message = world.messages[place]
        kind, node, unit, stream = message.kind, message.node, message.unit, message.stream
        done = True
        if kind == SOURCE:
            source(world, constants, stream, now)
            done = not next_tuple(world, constants, stream, place, now)
        elif kind == SEND:
            send(world, constants, message, place, now)
            done = False
        elif kind == STREAM:
            stream_at(world, constants, node, stream, message.number, message.born, now)
        elif kind == ROW:
            row_at(world, constants, message, now)
        elif kind == AD_HOC:
            done = not other_work(world, constants, node, place, now)
        elif kind == ARRIVED:
            message.kind = DRAINED
            push(world, max(world.nodes[node].free_at, now), place)
            done = False
        elif kind == DRAINED:
            world.units[unit].leaving = -1
            message.kind = INSTALLED
            tally.state_bytes += world.units[unit].state
            push(world, transmit(world, constants, node, world.units[unit].state, now), place)
            done = False
        else:
            install(world, unit, now)
        if done:
            give_back(world, place)
    return True
