"""Query trees as plain data, so that groups outlive a restart.

Members are kept by name: what they ask is kept with the queries. Of a derived node the form is kept, since it may
depend on what was known, and on who was there, when it was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.algebra import Expression, Select
from weft.catalog import codec
from weft.optimizer.group_results.conditions import Region, Rows, condition_of_boxes
from weft.optimizer.group_results.forms import Family, Form
from weft.optimizer.group_results.query_trees import Node
from weft.predicates.domains import clock_facts
from weft.predicates.normal_forms import Box, conjunctive_form, disjunctive_form
from weft.windows.join_windows import JoinWindows
from weft.windows.slicing import ResidueClass


def node_as_data(node: Node) -> dict[str, Any]:
    """A sub-tree as plain data."""
    document: dict[str, Any] = {"name": node.name} if node.name is not None else {"form": form_as_data(node.form)}
    if node.is_flagged:
        document["flagged"] = True
    if node.children:
        document["children"] = [node_as_data(child) for child in node.children]
    return document


def members_in(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The members of a group that was kept."""
    return (document["alone"],) if "alone" in document else tuple(names_in(document["tree"]))


def names_in(document: Mapping[str, Any]) -> Iterator[str]:
    """The members of a sub-tree that was kept."""
    if "name" in document:
        yield document["name"]
    for child in document.get("children", ()):
        yield from names_in(child)


def form_as_data(form: Form) -> dict[str, Any]:
    """A form as plain data: conditions as expressions."""
    document: dict[str, Any] = {"boxes": [codec.encode(condition_of_boxes([each.box])) for each in form.regions]}
    if form.windows is not None:
        document["windows"] = [list(form.windows.ranges), form.windows.slide, form.windows.origin, form.delay]
    if form.ends is not None:
        document["ends"] = sorted(map(list, form.ends))
    return document


def form_from_data(document: Mapping[str, Any], family: Family, rows: Rows) -> Form:
    """The form that `form_as_data` wrote down."""
    boxes = [_box(codec.decode(each), family) for each in document["boxes"]]
    regions = tuple(Region(box, rows(box)) for box in boxes)
    if "ends" in document:
        return Form(regions, ends=frozenset(ResidueClass(*each) for each in document["ends"]))
    if "windows" not in document:
        return Form(regions)
    ranges, slide, origin, delay = document["windows"]
    return Form(regions, JoinWindows(tuple(ranges), slide, origin), delay=delay)


def _box(condition: Expression | None, family: Family) -> Box:
    select = Select(family.inputs, None, (), family.clock_type)
    found = disjunctive_form(conjunctive_form(condition, clock_facts(select)))
    assert found is not None
    (box,) = found
    return box
