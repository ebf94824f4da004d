"""What a relation reads."""

from __future__ import annotations

from collections.abc import Iterator

from weft.algebra.relations import Answers, Relation, Select, Source, Stream


def sources_read(relation: Relation) -> Iterator[str]:
    """The names of the streams and queries at the leaves of a relation, as often as they are read.

    Views do not appear: binding has put their relations in the place of their names.
    """
    waiting: list[Source] = [relation]
    while waiting:
        source = waiting.pop()
        if isinstance(source, Stream):
            yield source.name
        elif isinstance(source, Answers):
            yield source.query
        elif isinstance(source, Select):
            waiting.extend(each.source for each in reversed(source.inputs))
        else:
            waiting += (source.right, source.left)
