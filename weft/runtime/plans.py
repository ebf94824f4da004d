"""Plans of what is registered: the newest one, and those of earlier cycles."""

from __future__ import annotations

from collections.abc import Mapping

from weft.algebra import Answers, Query, Stream, Table
from weft.algebra.properties import leaves, name_of
from weft.catalog import Catalog
from weft.plan.query_list import QueryList, build


class Plans:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        #: The streams that are read; None if all that are registered will be.
        self.streams: Mapping[int, Stream] | None = None
        #: The newest plan that this process has used.
        self.newest: QueryList | None = None
        #: The numbers of streams and queries that it was made for.
        self._made_for: object = None

    def stored(self, number: int) -> QueryList:
        """Return the plan with a number."""
        if self.newest is not None and self.newest.number == number:
            return self.newest
        stored: QueryList = self._catalog.plan(number)
        return stored

    def current(self) -> QueryList:
        """Return the plan of the streams that are read: the last one, or a new version if that differs."""
        if self.newest is None:
            self.newest = self._catalog.latest_plan()
        known = self.newest
        streams = self.streams if self.streams is not None else self.registered_streams()
        with self._catalog.transaction():
            number_of = self._catalog.running_numbers()
            registered = (tuple(streams), self._catalog.stream_numbers(), number_of)
            if known is None or self._made_for != registered:
                queries = self._readable(streams)
                number_of = {each.name: number_of[each.name] for each in queries}
                self._made_for = registered
                if known is not None and known.stream_numbers == tuple(streams) and known.number_of == number_of:
                    return known
                number = known.number + 1 if known else 1
                known = build(number, streams, queries, number_of, self._catalog.table_numbers(), known)
                self._catalog.append_plan(known.number, known)
                self.newest = known
        return known

    def registered_streams(self) -> dict[int, Stream]:
        """Return the streams by number, in the order of creation."""
        with self._catalog.transaction():
            numbers = self._catalog.stream_numbers()
            return {numbers[each.name]: each for each in self._catalog.streams()}

    def _readable(self, streams: Mapping[int, Stream]) -> tuple[Query, ...]:
        """The queries all of whose streams are read. One over a stream that was just registered begins when that is."""
        numbers = self._catalog.stream_numbers()
        read = {stream.name for number, stream in streams.items() if numbers.get(stream.name, number) == number}
        found: dict[str, Query] = {}
        for query in self._catalog.running():
            flowing = (leaf for leaf in leaves(query.relation) if not isinstance(leaf, Table))
            if all(name_of(leaf) in (found if isinstance(leaf, Answers) else read) for leaf in flowing):
                found[query.name] = query
        return tuple(found.values())
