"""Pictures of what is shared: every query is in them, nothing overlaps, and the formats are what they say."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations
from xml.etree import ElementTree

import pytest

from tests.runtime.joins.workloads import workload
from tests.support.plans import planned
from weft.explain.describe_joins import shared_network
from weft.explain.describe_windows import sharing
from weft.explain.pictures import QUERIES, WIDTH, Arrow, Box, Drawing, box_lines, dot, drawing, mermaid, thickness
from weft.explain.plan_description import Sharing
from weft.explain.svg import layout, svg
from weft.sql.check import check

_SVG = "{http://www.w3.org/2000/svg}"


@cache
def shared(seed: int, count: int = 14) -> Sharing:
    told = workload(seed, queries=count)
    queries = check(";".join([*told.streams.values(), *told.tables.values(), *told.queries.values()])).queries
    plan = planned(queries)
    found = sharing(queries, plan)
    return replace(found, network=shared_network(queries, plan, woven=found.woven))


def names(found: Sharing) -> list[str]:
    return [*found.woven, *found.not_woven]


@pytest.fixture(params=[(seed, most) for seed in range(6) for most in (4, 30)], ids=str)
def drawn(request: pytest.FixtureRequest) -> tuple[Sharing, Drawing]:
    seed, most = request.param
    return shared(seed), drawing(shared(seed), names(shared(seed)), most)


def test_every_query_that_shares_is_in_one_box(drawn: tuple[Sharing, Drawing]) -> None:
    found, picture = drawn
    boxes = [box for box in picture.boxes if box.kind == QUERIES]
    shown = sum(box.weight for box in boxes) + len(picture.unseen)
    assert shown == len(names(found)) - len(found.unshared)
    named = Counter(line for box in boxes for line in box.lines if not line.startswith(("…", "and ")))
    assert set(named.values()) == {1}
    assert named.keys() <= set(names(found)) - found.unshared.keys()


def test_arrows_lead_from_boxes_to_later_boxes(drawn: tuple[Sharing, Drawing]) -> None:
    _, picture = drawn
    order = {box.key: place for place, box in enumerate(picture.boxes)}
    assert len(order) == len(picture.boxes)
    assert all(order[arrow.start] < order[arrow.end] for arrow in picture.arrows)
    ends = Counter(arrow.end for arrow in picture.arrows)
    assert all(ends[box.key] == 1 for box in picture.boxes if box.kind == QUERIES)


def test_no_more_boxes_than_are_asked_for_and_the_others_are_counted() -> None:
    found = shared(2)
    everything = drawing(found, names(found), 1_000)
    some = drawing(found, names(found), 5)
    inner = [box for box in everything.boxes if box.kind != QUERIES]
    shown = [box for box in some.boxes if box.kind != QUERIES]
    assert len(shown) <= 5 < len(inner)
    assert f"{len(inner) - len(shown)} nodes of {len(inner)} left out: these are the most shared" in some.notes
    through = [int(n) for box in some.boxes for n in re.findall(r"through (\d+) node", " ".join(box.lines))]
    assert sum(through) <= len(inner) - len(shown)
    least = min(box.weight for box in shown)
    assert least >= sorted((box.weight for box in inner), reverse=True)[len(shown) - 1] - 1


def test_boxes_do_not_overlap(drawn: tuple[Sharing, Drawing]) -> None:
    _, picture = drawn
    heights = {box.key: 20.0 + 10 * len(box.lines) for box in picture.boxes}
    places = layout(picture, 100.0, heights)
    for one, other in combinations(picture.boxes, 2):
        (x, y), (u, v) = places.corners[one.key], places.corners[other.key]
        apart = abs(x - u) >= 100 or y + heights[one.key] <= v + 1e-6 or v + heights[other.key] <= y + 1e-6
        assert apart, (one.key, other.key)
    for key, (x, y) in places.corners.items():
        assert 0 <= x <= places.width - 100 + 1e-6
        assert -1e-6 <= y <= places.height - heights[key] + 1e-6


def test_arrows_go_to_the_right_and_touch_their_boxes(drawn: tuple[Sharing, Drawing]) -> None:
    _, picture = drawn
    places = layout(picture, 100.0, dict.fromkeys((box.key for box in picture.boxes), 40.0))
    for arrow, path in zip(picture.arrows, places.paths, strict=True):
        x, y = places.corners[arrow.start]
        u, v = places.corners[arrow.end]
        assert path[0] == (x + 100, y + 20)
        assert path[-1] == (u, v + 20)
        assert [point[0] for point in path] == sorted(point[0] for point in path)
        assert all(-1e-6 <= y <= places.height + 1e-6 for _, y in path)


def test_an_svg_is_xml_with_a_frame_for_every_box(drawn: tuple[Sharing, Drawing]) -> None:
    _, picture = drawn
    root = ElementTree.fromstring(svg(picture))
    assert root.tag == f"{_SVG}svg"
    assert len(root.findall(f".//{_SVG}rect")) == 1 + len(picture.boxes)
    assert len(root.findall(f".//{_SVG}path")) == len(picture.arrows)
    texts = [each.text for each in root.iter(f"{_SVG}text")]
    assert all(box.title in texts for box in picture.boxes)


AWKWARD = Drawing(
    (
        Box("one", "stream", "stream `a`", (), 2),
        Box("two", "selection", "2 selection", ("s = '\"<&#>\\'", "x" * 90), 2),
        Box("three", QUERIES, "2 queries", ("a", "b"), 2),
    ),
    (Arrow("one", "two", 2), Arrow("two", "three", 2, is_direct=False)),
    ("a note <b>",),
)


def test_what_means_something_to_a_format_is_escaped() -> None:
    texts = [each.text for each in ElementTree.fromstring(svg(AWKWARD)).iter(f"{_SVG}text")]
    assert "s = '\"<&#>\\'" in texts
    assert "a note <b>" in texts
    (line,) = (each for each in mermaid(AWKWARD).splitlines() if each.startswith("  b1["))
    assert "s = '#quot;#lt;#amp;#35;#gt;\\'" in line
    assert line.count('"') == 2
    assert "label=\"2 selection\\ls = '\\\"<&#>\\\\'\\l" in dot(AWKWARD)


def test_arrows_that_pass_what_is_left_out_are_broken() -> None:
    assert "b1 -.->|2| b2" in mermaid(AWKWARD)
    assert 'b1 -> b2 [penwidth=1.9, label="2", style=dashed];' in dot(AWKWARD)
    assert svg(AWKWARD).count("stroke-dasharray") == 1


def test_lines_fit_into_boxes() -> None:
    lines = box_lines(["word " * 12, *(f"condition {n}" for n in range(9)), "… through 3 nodes not shown"])
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[-2:] == ["… 4 more conditions", "… through 3 nodes not shown"]


def test_arrows_grow_with_the_doublings_of_queries() -> None:
    assert [thickness(weight) for weight in (1, 2, 3, 4, 1_000_000)] == pytest.approx([1, 1.9, 1.9, 2.8, 8])


def test_nothing_is_a_picture_too() -> None:
    nothing = drawing(Sharing(), ())
    assert ElementTree.fromstring(svg(nothing)).tag == f"{_SVG}svg"
    assert mermaid(nothing).startswith("flowchart LR")
    assert dot(nothing).endswith("}")
