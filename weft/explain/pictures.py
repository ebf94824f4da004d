"""Pictures of what is shared: boxes from streams on the left to queries on the right, as Mermaid or Graphviz text.

    stream ──> selection ──> join ──> queries          the network
    stream ──> tree ──> queries                        window trees

A picture of a thousand boxes is of no use. Those that most queries need are shown, with all that is below them. What is
left out above one of them is a broken arrow to the queries that it leads to, and a note counts all of it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from weft.explain import plan_description as plan
from weft.explain.query_text import count, some
from weft.plan.network import parents_first

#: The most boxes that are shown, without those of queries.
MOST_BOXES = 30
#: The most queries that are named in a box.
_NAMES = 6
#: How wide a line of a box is, in characters, and how many lines a box has at most.
WIDTH = 38
_LINES = 7

STREAM, TREE, QUERIES = "stream", "tree", "queries"
#: Fill and frame by kind.
COLOURS = {
    "stream": ("#dbeafe", "#1d4ed8"),
    "selection": ("#fef3c7", "#b45309"),
    "join": ("#d1fae5", "#047857"),
    "tree": ("#ede9fe", "#6d28d9"),
    "queries": ("#ffffff", "#475569"),
}
#: Characters that mean something to Mermaid, or to the HTML that labels become.
_MERMAID = str.maketrans({"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"})
_DOT = str.maketrans({"\\": "\\\\", '"': '\\"'})


@dataclass(frozen=True, slots=True)
class Box:
    """A box: what kind of thing it is, what is written in it, and how many queries need it.

    `parents` are the boxes that it is made from, `queries` those of the picture that need it.
    """

    key: str
    kind: str
    title: str
    lines: tuple[str, ...]
    weight: int
    parents: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another; `weight` queries need it. It may pass boxes that are left out."""

    start: str
    end: str
    weight: int
    is_direct: bool = True


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, those that an arrow starts from before those it leads to; arrows; and what the picture does not show."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    notes: tuple[str, ...]
    #: Queries that read nothing of what is shown.
    unseen: tuple[str, ...] = ()


def drawing(sharing: plan.Sharing, names: Collection[str], most: int = MOST_BOXES) -> Drawing:
    """The picture of some queries: of their part of what is shared."""
    answered = {name: key for name, key in _answered_by(sharing) if name in names}
    known = {box.key: box for box in _boxes(sharing, frozenset(names), answered)}
    shown = _shown(known, most)
    homes = _homes_of_left_out(known, shown)
    boxes = [known[key] for key in shown]
    arrows = [Arrow(parent, box.key, box.weight) for box in boxes for parent in dict.fromkeys(box.parents)]
    found: dict[tuple[str, bool], list[str]] = {}
    for name, key in answered.items():
        found.setdefault((homes.get(key, key), key in homes), []).append(name)
    for key in shown:
        for is_left_out in (False, True):
            if (key, is_left_out) in found:
                above = sum(home == key for home in homes.values()) if is_left_out else 0
                box = _queries_box(f"queries of {key}{' and above' * is_left_out}", found[key, is_left_out], above)
                boxes.append(box)
                arrows.append(Arrow(key, box.key, box.weight, not is_left_out))
    unseen = tuple(name for (key, _), those in found.items() if key not in shown for name in those)
    notes = list(_notes(sharing, names, len(known), len(shown)))
    if unseen:
        notes.append(f"above nodes that are left out: {some(unseen)}")
    return Drawing(tuple(boxes), tuple(arrows), tuple(notes), unseen)


def _queries_box(key: str, names: list[str], left_out: int) -> Box:
    more = [f"and {len(names) - _NAMES:,} more"] if len(names) > _NAMES else []
    through = [f"… through {count(left_out, 'node')} not shown"] if left_out else []
    return Box(key, QUERIES, count(len(names), "query", "queries"), (*names[:_NAMES], *more, *through), len(names))


def _notes(sharing: plan.Sharing, names: Collection[str], parts: int, shown: int) -> Iterator[str]:
    if shown < parts:
        yield f"{count(parts - shown, 'node')} of {parts:,} left out: these are the most shared"
    alone = [name for name in sharing.unshared if name in names]
    if alone:
        yield f"neither woven nor in the network: {some(alone)}"


# -- boxes ------------------------------------------------------------------------------------------------------------


def _answered_by(sharing: plan.Sharing) -> Iterator[tuple[str, str]]:
    """The box that each query finds its answers in, or the rows that it is computed from."""
    for name, woven in sharing.woven.items():
        yield name, _woven_key(woven.tree, sharing.stream(woven.stream))
    for name, query in sharing.network.queries.items():
        yield name, _node_key(sharing.network.nodes[query.answers[-1].node])


def _boxes(sharing: plan.Sharing, names: Collection[str], answered: Mapping[str, str]) -> Iterator[Box]:
    network = sharing.network.within(names)
    logs = {_node_key(node): node for node in network.nodes.values() if node.kind == plan.LOG}
    drawn = set()
    for stream in sharing.streams:
        woven = list(_woven_boxes(stream, names))
        key = f"stream {stream.name}"
        if woven:
            also = logs[key].queries if key in logs else ()
            reading = (*(name for box in woven for name in box.queries), *(name for name in also if name in names))
            yield Box(key, STREAM, key, (), stream.number_of_queries + len(also), queries=reading)
            yield from woven
            drawn.add(key)
    wanted = {number for query in network.queries.values() for number in query.nodes}
    for number, node in network.nodes.items():
        if number in wanted and not (node.kind == plan.LOG and node.title in drawn):
            yield _node_box(node, network, names, answered)


def _woven_boxes(stream: plan.SharedStream, names: Collection[str]) -> Iterator[Box]:
    def box(tree: plan.SharedTree | plan.RunningCohort, title: str, *lines: str) -> Iterator[Box]:
        queries = tuple(name for name in tree.queries if name in names)
        if queries:
            key, parents = _woven_key(tree, stream), (f"stream {stream.name}",)
            yield Box(key, TREE, title, lines, len(tree.queries), parents, queries)

    for cohort in stream.cohorts:
        rows = [f"where {each}" for each in cohort.conditions]
        by = [f"by {', '.join(cohort.keys)}"] if cohort.keys else []
        for tree in cohort.trees:
            yield from box(tree, f"tree {tree.number}", *(each["text"] for each in tree.windows), *rows, *by)
    for running in stream.running:
        rows = [f"where {each}" for each in running.conditions]
        yield from box(running, "never closing", *rows, f"by {', '.join(running.keys) or 'nothing'}")


def _node_box(
    node: plan.SharedNode, network: plan.SharedNetwork, names: Collection[str], answered: Mapping[str, str]
) -> Box:
    key, weight, queries = _node_key(node), len(node.queries), tuple(name for name in node.queries if name in names)
    if node.kind == plan.LOG:
        # The answers of a query come out of the box that it finds them in, if that one is drawn.
        giver = answered.get(key.removeprefix("answers of "))
        return Box(key, STREAM, key, (), weight, (giver,) if giver else (), queries)
    parents = tuple(_node_key(network.nodes[parent]) for parent in node.parents)
    lines = (*(f"on {each}" for each in node.equations), *node.conditions)
    return Box(key, node.kind, f"{node.number} {node.kind}", lines, weight, parents, queries)


def _node_key(node: plan.SharedNode) -> str:
    return node.title if node.kind == plan.LOG else f"node {node.number}"


def _woven_key(tree: plan.SharedTree | plan.RunningCohort, stream: plan.SharedStream) -> str:
    if isinstance(tree, plan.SharedTree):
        return f"tree {tree.number} of {stream.name}"
    return f"running {stream.running.index(tree)} of {stream.name}"


# -- what is shown ----------------------------------------------------------------------------------------------------


def _shown(boxes: Mapping[str, Box], most: int) -> list[str]:
    """The boxes that most queries need and all that is below them, in order."""
    parents = {key: box.parents for key, box in boxes.items()}
    order = {key: position for position, key in enumerate(parents_first(parents))}
    chosen: set[str] = set()
    for key in sorted(order, key=lambda key: (-len(boxes[key].queries), order[key])):
        needed = chosen.union(parents_first(parents, [key]))
        if len(needed) <= most:
            chosen = needed
    return sorted(chosen, key=order.__getitem__)


def _homes_of_left_out(boxes: Mapping[str, Box], shown: Collection[str]) -> dict[str, str]:
    """For each box that is left out, the one that is shown and nearest below it: each is counted once."""
    homes: dict[str, str] = {}
    for key in parents_first({key: box.parents for key, box in boxes.items()}):
        below = [parent if parent in shown else homes.get(parent) for parent in boxes[key].parents]
        home = next((each for each in below if each is not None), None)
        if key not in shown and home is not None:
            homes[key] = home
    return homes


# -- in which words ---------------------------------------------------------------------------------------------------


def box_lines(lines: Iterable[str]) -> list[str]:
    """Lines that fit into a box; what does not is counted."""
    texts = list(lines)
    conditions, notes = ([each for each in texts if each.startswith("…") is is_note] for is_note in (False, True))
    found: list[str] = []
    for place, text in enumerate(conditions):
        wrapped = textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        if len(found) + len(wrapped) > _LINES:
            return [*found, f"… {count(len(conditions) - place, 'more condition')}", *notes]
        found += wrapped
    return found + [line for note in notes for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]


def thickness(weight: int) -> float:
    """How thick an arrow is that `weight` queries need: one more for every doubling."""
    return min(1.0 + (weight.bit_length() - 1) * 0.9, 8.0)


# -- formats ----------------------------------------------------------------------------------------------------------


def _names(drawing: Drawing) -> dict[str, str]:
    return {box.key: f"b{number}" for number, box in enumerate(drawing.boxes)}


def mermaid(drawing: Drawing) -> str:
    """The picture as a flowchart for Mermaid."""
    names = _names(drawing)
    lines = ["flowchart LR", *(f"  %% {' '.join(note.split())}" for note in drawing.notes)]
    for box in drawing.boxes:
        label = "<br/>".join(line.translate(_MERMAID) for line in (box.title, *box_lines(box.lines)))
        shape = {STREAM: f'[("{label}")]', QUERIES: f'(["{label}"])'}.get(box.kind, f'["{label}"]')
        lines.append(f"  {names[box.key]}{shape}:::{box.kind}")
    for arrow in drawing.arrows:
        label = f"|{arrow.weight}|" if arrow.weight > 1 else ""
        lines.append(f"  {names[arrow.start]} {'-->' if arrow.is_direct else '-.->'}{label} {names[arrow.end]}")
    for number, arrow in enumerate(drawing.arrows):
        if arrow.weight > 1:
            lines.append(f"  linkStyle {number} stroke-width:{thickness(arrow.weight):.1f}px")
    for kind, (fill, frame) in COLOURS.items():
        lines.append(f"  classDef {kind} fill:{fill},stroke:{frame},color:#0f172a")
    return "\n".join(lines)


def dot(drawing: Drawing) -> str:
    """The picture as a graph for Graphviz, in the DOT language."""
    names = _names(drawing)
    label = "\\n".join(note.translate(_DOT) for note in drawing.notes)
    lines = [
        "digraph weft {",
        f'  graph [rankdir=LR, fontname="Helvetica", fontsize=11, labelloc=b, label="{label}"];',
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];',
        '  edge [color="#64748b", fontname="Helvetica", fontsize=9];',
    ]
    for box in drawing.boxes:
        fill, frame = COLOURS[box.kind]
        # Lines end in \l: they begin at the left side of the box.
        label = "".join(f"{line.translate(_DOT)}\\l" for line in (box.title, *box_lines(box.lines)))
        shape = {STREAM: ", shape=cylinder", QUERIES: ", shape=oval"}.get(box.kind, "")
        lines.append(f'  {names[box.key]} [label="{label}", fillcolor="{fill}", color="{frame}"{shape}];')
    for arrow in drawing.arrows:
        label = f', label="{arrow.weight}"' if arrow.weight > 1 else ""
        style = "" if arrow.is_direct else ", style=dashed"
        ends, width = f"{names[arrow.start]} -> {names[arrow.end]}", f"{thickness(arrow.weight):.1f}"
        lines.append(f"  {ends} [penwidth={width}{label}{style}];")
    return "\n".join([*lines, "}"])
