"""What the catalog keeps of delivery: representatives, itineraries and groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.catalog.examples import TRADES, query
from weft.algebra import Answers, Query, Sink, Stream
from weft.catalog import Catalog, MemberItinerary, Representative
from weft.catalog.catalog_errors import CatalogError


def member(name: str) -> Query:
    return replace(query(name), sink=Sink("subscribers"))


def representative(name: str) -> Representative:
    return Representative(name, "g1", 2, 0, query(name), '{"reach":7}')


def test_representatives_run_in_the_place_of_members(catalog: Catalog) -> None:
    catalog.add(query("plain"))
    catalog.add(member("wanted"))
    catalog.add(representative("g1.2"))
    assert catalog.members() == {"wanted": catalog.query_numbers()["wanted"]}
    assert [each.name for each in catalog.running()] == ["plain", "g1.2"]
    assert catalog.representatives() == (representative("g1.2"),)
    assert "g1.2" not in catalog.known_names()
    assert [each.name for each in catalog.queries()] == ["plain", "wanted"]


def test_a_member_that_others_read_runs_itself(catalog: Catalog) -> None:
    catalog.add(member("wanted"))
    read = catalog.query("wanted")
    answers = Answers("wanted", read.relation.fields, None, read.relation.clock_type)
    above = replace(query("above").relation, inputs=(replace(query("above").relation.inputs[0], source=answers),))
    catalog.add(replace(query("above"), relation=above))
    assert list(catalog.running_numbers()) == ["wanted", "above"]


def test_numbers_are_those_of_no_query_before_or_after(catalog: Catalog, tmp_path: Path) -> None:
    catalog.add(representative("g1.2"))
    first = catalog.running_numbers()["g1.2"]
    catalog.drop(Representative, "g1.2")
    catalog.add(query("next"))
    assert catalog.query_numbers()["next"] == first + 1


def test_a_stream_may_go_before_the_representatives_that_read_it(catalog: Catalog) -> None:
    catalog.add(representative("g1.2"))
    catalog.drop(Stream, TRADES.name)
    assert catalog.representatives() == (representative("g1.2"),)


def test_a_name_means_one_thing(catalog: Catalog) -> None:
    catalog.add(representative("g1.2"))
    with pytest.raises(CatalogError, match=r"has a representative 'g1\.2'"):
        catalog.add(query("g1.2"))


def test_itineraries_are_found_by_number_and_by_cycle(catalog: Catalog) -> None:
    deliveries = catalog.deliveries
    first, second = MemberItinerary(1, 5, {"x": 1}), MemberItinerary(2, 6, {"x": 2})
    for each in (first, second):
        deliveries.put(each)
    assert deliveries.itineraries() == (first, second)
    assert deliveries.itinerary(2) == second
    assert deliveries.itinerary(3) is None
    moved = replace(first, cycle=6, document={"x": 3})
    deliveries.put(moved)
    assert deliveries.changed_in(6) == (moved, second)
    assert deliveries.changed_in(5) == ()


def test_members_that_ended_are_found_until_they_are_deleted(catalog: Catalog) -> None:
    deliveries = catalog.deliveries
    gone, there = MemberItinerary(1, 5, {"x": 1}, ended=True), MemberItinerary(2, 4, {"x": 1})
    deliveries.put(gone)
    deliveries.put(there)
    assert deliveries.changed_in(5) == (gone,)
    assert deliveries.itineraries() == (there,)
    deliveries.delete_ended(before=5)
    assert deliveries.changed_in(5) == (gone,)
    deliveries.delete_ended(before=6)
    assert deliveries.changed_in(5) == ()
    assert deliveries.itineraries() == (there,)


def test_groups_are_stored_by_name(catalog: Catalog) -> None:
    deliveries = catalog.deliveries
    deliveries.put_group("g1", {"members": [1, 2]})
    deliveries.put_group("g2", {"members": [3]})
    deliveries.put_group("g1", {"members": [2]})
    assert deliveries.groups() == {"g1": {"members": [2]}, "g2": {"members": [3]}}
    deliveries.put_group("g1", None)
    assert deliveries.groups() == {"g2": {"members": [3]}}
    deliveries.clear()
    assert deliveries.groups() == {}
