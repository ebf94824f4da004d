"""SlickDeque (Non-Inv): of the partials in the window, a deque keeps those that can still be an answer.

Full name    SlickDeque for functions without an inverse
Needs        a selective function: a ⊕ b is a or b
Time         less than 2 per slide, amortised; n worst, with probability 1/n! on exchangeable input; one walk along the
             deque answers all ranges
Space        2 to 2n: falling input fills the deque
Paper        Shein, Chrysanthis and Labrinidis, "SlickDeque: High Throughput and Low Latency Incremental Sliding-Window
             Aggregation", 2018
Many ranges  yes

For MAX the deque falls from head to tail. A new value displaces those at the tail that are not greater: they are older
and smaller, and no window will name them again. The answer of a window is the first entry that lies in it:

    deque   (1, 6) (3, 5) (5, 3) (6, 2)      take in (7, 4): 2 and 3 go         range 6: 5
                                             (1, 6) has expired                 range 4: 4
            (3, 5) (7, 4)

**In batches.** Whether a value is displaced is a coin toss to the processor, and a wrong guess costs more than all the
rest of a slide. So partials first gather in a short list that is not in the deque yet, whose aggregate, the *peak*, is
kept. While a window reaches back before the list, its answer is head ⊕ peak. A full list is merged: the peak displaces
what it can, and those of the list that no later one displaces are appended. An answer about less than the list, or for
several ranges, merges first. With batches of one this is the paper's algorithm.

Every key has its own deque. All their entries share a matrix of slots × keys.
"""

from __future__ import annotations

from typing import Any

from weft.kernels.compiled.cells import FIRST, NEXT, OWN, SLOTS, Algorithm, Index, KernelShape, MemoryLayout, forget
from weft.kernels.compiled.machine_code import Memory, jitable

#: Partials that are gathered before they are merged, how many are gathered now, and for how many there is room.
BATCH, GATHERED, ROOM = OWN, OWN + 1, OWN + 2

# The table has, for each key, the slot of its head; then, for each key, its length; then the gathered partials that a
# merge keeps; and then, slot by slot, the sequence numbers of all keys.

#: Longer batches cost less in all, and more on the slide that merges.
LONGEST_BATCH = 16

FEWEST_SLOTS = 64


def layout(shape: KernelShape) -> MemoryLayout:
    slots, batch = min(FEWEST_SLOTS, slots_for(shape.capacity)), batch_for(shape.capacity)
    return layout_of(shape.width, slots, batch, room=batch)


def batch_for(capacity: int) -> int:
    return max(1, min(LONGEST_BATCH, capacity // 2))


def layout_of(width: int, slots: int, batch: int, room: int) -> MemoryLayout:
    """The memory for `width` deques of `slots` entries, `room` gathered partials, their peak, and the identity."""
    return MemoryLayout(slots + room + 2, own=(batch, 0, room), table=2 * width + room + slots * width, slots=slots)


def slots_for(entries: int) -> int:
    """Slots for this number of entries per key: a power of two."""
    return 1 << (entries - 1).bit_length()


@jitable
def entries_at(ix: Index, keys: int) -> int:
    """Where the sequence numbers begin."""
    return 2 * keys + ix[ROOM]


@jitable
def slide(f: Any, cells: Memory, ix: Index, table: Index, starts: Any, at: int, incoming: Memory, i: int) -> None:
    forget(ix, starts[at])
    gathered, peak = ix[GATHERED], ix[SLOTS] + ix[ROOM]
    f.copy(cells, ix[SLOTS] + gathered, incoming, i)
    if gathered == 0:
        f.copy(cells, peak, incoming, i)
    else:
        f.combine(cells, peak, cells, peak, incoming, i)
    ix[NEXT] += 1
    ix[GATHERED] = gathered + 1
    if gathered + 1 >= ix[BATCH]:
        merge(f, cells, ix, table)


@jitable
def merge(f: Any, cells: Memory, ix: Index, table: Index) -> None:
    """Brings the gathered partials into the deques."""
    keys = f.number_of_keys()
    slots, gathered = ix[SLOTS], ix[GATHERED]
    peak, kept_at, entries = slots + ix[ROOM], 2 * keys, entries_at(ix, keys)
    first_gathered = ix[NEXT] - gathered
    expired = max(0, ix[FIRST] - first_gathered)
    for key in range(keys):
        _drop_expired(ix, table, keys, key)
        head, length = table[key], table[keys + key]
        while length > 0 and f.displaces(cells, peak, cells, (head + length - 1) & (slots - 1), key):
            length -= 1
        kept = f.undisplaced(cells, slots + expired, gathered - expired, table, kept_at, key)
        for n in range(kept - 1, -1, -1):
            source, to = expired + table[kept_at + n], (head + length) & (slots - 1)
            f.put(cells, to, cells, slots + source, key)
            table[entries + to * keys + key] = first_gathered + source
            length += 1
        table[keys + key] = length
    ix[GATHERED] = 0


@jitable
def _drop_expired(ix: Index, table: Index, keys: int, key: int) -> None:
    entries, last_slot = entries_at(ix, keys), ix[SLOTS] - 1
    while table[keys + key] > 0 and table[entries + table[key] * keys + key] < ix[FIRST]:
        table[key] = (table[key] + 1) & last_slot
        table[keys + key] -= 1


@jitable
def query(f: Any, cells: Memory, ix: Index, table: Index, start: int, j: int, out: Memory, a: int) -> None:
    keys, peak = f.number_of_keys(), ix[SLOTS] + ix[ROOM]
    if ix[GATHERED] > 0 and start == ix[FIRST] and start <= ix[NEXT] - ix[GATHERED]:
        for key in range(keys):
            _drop_expired(ix, table, keys, key)
            head = table[key]
            if table[keys + key] == 0 or f.displaces(cells, peak, cells, head, key):
                head = peak
            f.put(out, a, cells, head, key)
        return
    if ix[GATHERED] > 0:
        merge(f, cells, ix, table)
    for key in range(keys):
        entry = 0
        while _last_start(ix, table, keys, key, entry) < start:
            entry += 1
        f.put(out, a, cells, _cell(ix, table, keys, key, entry), key)


@jitable
def answer(
    f: Any,
    cells: Memory,
    ix: Index,
    table: Index,
    starts: Any,
    due: Any,
    all_due: int,
    at: int,
    ranges: int,
    out: Memory,
    a: int,
) -> int:
    """All ranges that are due, longest first, on one walk along each deque."""
    if not all_due and due[a] >= at + ranges:
        return 0
    if ranges == 1:
        query(f, cells, ix, table, starts[at], 0, out, a)
        return 1
    if ix[GATHERED] > 0:
        merge(f, cells, ix, table)
    answers = 0
    keys = f.number_of_keys()
    for key in range(keys):
        j, entry, answers = 0 if all_due else due[a] - at, 0, 0
        while j < ranges:
            while _last_start(ix, table, keys, key, entry) < starts[at + j]:
                entry += 1
            # The entry answers all ranges up to the first that begins after it.
            end = _first_after(starts, at + j, at + ranges, _last_start(ix, table, keys, key, entry)) - at
            number, room = end - j, ranges - j
            if not all_due:
                number = 0
                while due[a + answers + number] < at + end:
                    number += 1
                room = number
            f.put_span(out, a + answers, number, room, cells, _cell(ix, table, keys, key, entry), key)
            answers += number
            j = end if all_due else due[a + answers] - at
    return answers


@jitable
def _first_after(starts: Any, low: int, high: int, last: int) -> int:
    """The first place from `low` on where a start is greater than `last`; starts ascend."""
    # Where windows of all lengths are asked for, starts are successive, and the first guess is right.
    guess: int = min(high, low + last + 1 - starts[low])
    if guess > low and starts[guess - 1] <= last and (guess == high or starts[guess] > last):
        return guess
    while low < high:
        middle = (low + high) // 2
        if starts[middle] <= last:
            low = middle + 1
        else:
            high = middle
    return low


@jitable
def _last_start(ix: Index, table: Index, keys: int, key: int, entry: int) -> int:
    """The last start of a window whose answer is this entry of the key's deque: that of the entry itself."""
    if entry >= table[keys + key]:
        return ix[NEXT]
    return table[entries_at(ix, keys) + ((table[key] + entry) & (ix[SLOTS] - 1)) * keys + key]


@jitable
def _cell(ix: Index, table: Index, keys: int, key: int, entry: int) -> int:
    """The cell of an entry; past the last one (the column of the key was cleared), that of the identity."""
    if entry < table[keys + key]:
        return (table[key] + entry) & (ix[SLOTS] - 1)
    return ix[SLOTS] + ix[ROOM] + 1


def covering(ix: Index, table: Index, sequence: int) -> list[int]:
    """For a gathered partial: its own cell, and the peak. Those in the deques: see `DequeKernel`."""
    slots, gathered = int(ix[SLOTS]), int(ix[GATHERED])
    return [slots + sequence - (int(ix[NEXT]) - gathered), slots + int(ix[ROOM])]


SLICKDEQUE_NONINV = Algorithm(
    "slickdeque_noninv",
    "SlickDeque (Non-Inv)",
    layout,
    slide,
    query,
    covering,
    answer,
    selects=True,
    data_independent=False,
)
