"""After a select has gone: nodes that were there for the sake of several, and now serve one, go too.

C ── amount > 100000 ──> J1        C was weaker, to serve another query as well: J1 joins its rows by itself again
S1 ── amount > 1000 ──> S2         nobody reads S1 but S2: S2 reads what S1 read
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.optimizer.network.build import Builder
from weft.optimizer.network.moving import shorten
from weft.optimizer.network.nodes import Nodes


def tighten(nodes: Nodes, builder: Builder, numbers: Iterable[int]) -> None:
    """Looks at nodes that have lost a child or a select."""
    waiting = sorted(set(numbers))
    while waiting:
        number = waiting.pop(0)
        entry = nodes.entries.get(number)
        if entry is None or entry.places or len(entry.children) != 1 or not entry.parents:
            continue
        (child,) = entry.children
        if not nodes[child].is_selection:
            continue
        if entry.is_selection:
            shorten(nodes, child)
        else:
            builder.rejoin(child)
            # The selections that it joins now may be made from those that the weaker join read, and nobody else reads.
            waiting += sorted({below for parent in nodes[child].parents for below in nodes[parent].parents})
