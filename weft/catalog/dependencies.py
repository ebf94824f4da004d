"""What a relation reads: the leaves of its tree of sources."""

from __future__ import annotations

from weft.algebra import Answers, Relation, Select, Source, Stream


def leaves(relation: Relation) -> tuple[Stream | Answers, ...]:
    """Every stream and every query's answers that `relation` reads, from left to right, as often as it reads them.

    Views are not among them: binding has put their relations in the place of their names.
    """
    found: list[Stream | Answers] = []
    # A stack rather than recursion: a UNION of a thousand operands is a thousand levels deep.
    waiting: list[Source] = [relation]
    while waiting:
        source = waiting.pop()
        if isinstance(source, Stream | Answers):
            found.append(source)
        elif isinstance(source, Select):
            waiting.extend(item.source for item in reversed(source.inputs))
        else:
            waiting += (source.right, source.left)
    return tuple(found)


def name_of(leaf: Stream | Answers) -> str:
    """The name under which what is read is registered."""
    return leaf.name if isinstance(leaf, Stream) else leaf.query
