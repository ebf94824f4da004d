"""What a relation reads.

Views do not appear: binding has put their relations in the place of their names.
"""

from __future__ import annotations

from weft.algebra.relations import Answers, Select, SetOperation, Source, Stream, Table


def reads(source: Source) -> tuple[Source, ...]:
    """What a relation reads directly."""
    if isinstance(source, Select):
        return tuple(each.source for each in source.inputs)
    if isinstance(source, SetOperation):
        return source.left, source.right
    return ()


def flows(source: Source) -> tuple[Source, ...]:
    """What a relation reads directly, tables left out."""
    return tuple(each for each in reads(source) if not isinstance(each, Table))


def leaves(source: Source) -> tuple[Stream | Table | Answers, ...]:
    """Every stream, table and query's answers that a relation reads, from left to right, as often as it reads them."""
    found: list[Stream | Table | Answers] = []
    # A stack rather than recursion: a UNION of a thousand operands is a thousand levels deep.
    waiting: list[Source] = [source]
    while waiting:
        below = waiting.pop()
        if isinstance(below, Stream | Table | Answers):
            found.append(below)
        waiting.extend(reversed(reads(below)))
    return tuple(found)


def name_of(leaf: Stream | Table | Answers) -> str:
    """The name under which what is read is registered."""
    return leaf.query if isinstance(leaf, Answers) else leaf.name
