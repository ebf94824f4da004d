"""What a relation reads.

Views do not appear: binding has put their relations in the place of their names.
"""

from __future__ import annotations

from weft.algebra.relations import Answers, Select, SetOperation, Source, Stream


def reads(source: Source) -> tuple[Source, ...]:
    """What a relation reads directly."""
    if isinstance(source, Select):
        return tuple(each.source for each in source.inputs)
    if isinstance(source, SetOperation):
        return source.left, source.right
    return ()


def leaves(source: Source) -> tuple[Stream | Answers, ...]:
    """Every stream and every query's answers that a relation reads, from left to right, as often as it reads them."""
    found: list[Stream | Answers] = []
    # A stack rather than recursion: a UNION of a thousand operands is a thousand levels deep.
    waiting: list[Source] = [source]
    while waiting:
        below = waiting.pop()
        if isinstance(below, Stream | Answers):
            found.append(below)
        waiting.extend(reversed(reads(below)))
    return tuple(found)


def name_of(leaf: Stream | Answers) -> str:
    """The name under which what is read is registered."""
    return leaf.name if isinstance(leaf, Stream) else leaf.query
