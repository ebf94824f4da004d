"""Streams, views and queries: what is added is there, what is dropped is gone, and what is read stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.catalog.examples import FIELDS, TRADES, answers, query, selection, view
from weft.algebra import Input, Query, SetOperation, SetOperator, Sink, Stream, View
from weft.algebra.types import TIMESTAMP
from weft.catalog import Catalog, CatalogError
from weft.sql import Names

QUOTES = replace(TRADES, name="Quotes")


def union(left: Stream, right: Stream) -> SetOperation:
    return SetOperation(SetOperator.UNION, True, selection(left), selection(right), FIELDS[1:2], TIMESTAMP)


def test_everything_is_returned_as_it_was_added_in_the_order_of_creation(catalog: Catalog) -> None:
    queries = (
        query("b"),
        Query("a", union(TRADES, TRADES), "price", "text of a", sharing=False, sink=Sink("parquet", (("path", "x"),))),
        query("nested", selection()),
    )
    for each in queries:
        catalog.add(each)
    catalog.add(view("v"))
    catalog.add(QUOTES)
    with Catalog.open(catalog.path.parent, write=False) as reader:
        for source in (catalog, reader):
            assert source.queries() == queries
            assert source.query("A") == queries[1]
            assert source.streams() == (TRADES, QUOTES)
            assert source.get(Stream, "QUOTES") == QUOTES
            assert source.views() == (view("v"),)
            assert source.get(View, "V") == view("v")
            assert source.known_names() == ["trades", "b", "a", "nested", "v", "Quotes"]


def test_the_binder_can_look_names_up(catalog: Catalog) -> None:
    names: Names = catalog
    catalog.add(query("q"))
    catalog.add(view("v"))
    assert names.find("Trades") == TRADES
    assert names.find("V") == view("v")
    assert names.find("Q") == query("q")
    assert names.find("nothing") is None


def test_queries_share_the_stream_they_read(catalog: Catalog) -> None:
    catalog.add(query("a"))
    catalog.add(query("b", replace(TRADES)))
    with Catalog.open(catalog.path.parent, write=False) as reader:
        for each in reader.queries():
            assert isinstance(each.relation, type(selection()))
            assert each.relation.inputs[0].source is reader.get(Stream, "trades")


def test_a_query_keeps_the_stream_it_was_bound_to_even_if_another_is_registered(catalog: Catalog) -> None:
    bound = query("q", replace(TRADES, delay=7))
    catalog.add(bound)
    with Catalog.open(catalog.path.parent, write=False) as reader:
        assert reader.query("q") == bound


def test_a_name_is_taken_whatever_its_case_and_whatever_has_it(catalog: Catalog) -> None:
    catalog.add(query("Hot"))
    with pytest.raises(CatalogError, match=r"query 'HOT' cannot be added.* has a query 'Hot'; drop that first"):
        catalog.add(query("HOT"))
    with pytest.raises(CatalogError, match="a stream 'trades'"):
        catalog.add(view("Trades"))
    with pytest.raises(CatalogError, match="a query 'Hot'"):
        catalog.add(replace(TRADES, name="hot"))
    assert catalog.known_names() == ["trades", "Hot"]


def test_a_dropped_name_is_free_again(catalog: Catalog) -> None:
    catalog.add(query("q", above=1.0))
    catalog.drop(Query, "Q")
    assert catalog.find("q") is None
    catalog.add(query("q", above=2.0))
    assert catalog.query("q") == query("q", above=2.0)


def test_an_unknown_name_is_reported_with_the_closest_one(catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"no stream 'trade' in .*catalog\.sqlite; did you mean 'trades'\?"):
        catalog.get(Stream, "trade")
    with pytest.raises(CatalogError, match=r"no query 'trades' .*; create it first"):
        catalog.drop(Query, "trades")
    with pytest.raises(CatalogError, match="no view 'v'"):
        catalog.get(View, "v")


def test_what_is_read_must_be_registered(catalog: Catalog) -> None:
    for unbound in (query("q", QUOTES), query("q", answers("p")), query("q", answers("trades"))):
        with pytest.raises(CatalogError, match="there is no "):
            catalog.add(unbound)
    with pytest.raises(CatalogError, match="query 'q'"):
        catalog.add(query("q", answers("q")))
    assert catalog.known_names() == ["trades"]


def test_a_stream_that_is_read_is_not_dropped(catalog: Catalog) -> None:
    catalog.add(QUOTES)
    catalog.add(query("q"))
    catalog.add(view("v", selection()))
    catalog.add(Query("u", union(QUOTES, TRADES), None))
    join = replace(selection(), inputs=(Input(TRADES, "a"), Input(QUOTES, "b"), Input(TRADES, "c")))
    catalog.add(Query("j", join, None))
    with pytest.raises(CatalogError, match="stream 'Trades' is read by 'q', 'v', 'u', 'j'; drop what reads it first"):
        catalog.drop(Stream, "Trades")
    assert catalog.readers("TRADES") == ("q", "v", "u", "j")
    for name in ("q", "u", "j"):
        catalog.drop(Query, name)
    catalog.drop(Stream, "quotes")
    catalog.drop(View, "v")
    catalog.drop(Stream, "trades")
    assert catalog.known_names() == []


def test_a_query_that_is_read_is_not_dropped(catalog: Catalog) -> None:
    catalog.add(query("Base"))
    for n in range(7):
        catalog.add(query(f"top{n}", answers("base")))
    with pytest.raises(CatalogError, match=r"query 'base' is read by 'top0', .*'top4' and 2 more"):
        catalog.drop(Query, "base")
    for n in range(7):
        catalog.drop(Query, f"top{n}")
    catalog.drop(Query, "base")


def test_nothing_reads_what_is_unknown(catalog: Catalog) -> None:
    assert catalog.readers("nothing") == ()


def test_a_reader_changes_nothing(catalog: Catalog) -> None:
    with Catalog.open(catalog.path.parent, write=False) as reader:
        for change in (
            lambda: reader.add(query("q")),
            lambda: reader.drop(Stream, "trades"),
            lambda: reader.set_setting("a", 1),
            lambda: reader.record_statistics(1, {}),
            lambda: reader.append_plan(1, ()),
            lambda: reader.answer(1, ""),
        ):
            with pytest.raises(CatalogError, match="opened for reading"):
                change()


def test_text_that_is_not_unicode_is_refused(catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match="surrogate"):
        catalog.add(query("\ud800"))
    with pytest.raises(CatalogError, match="surrogate"):
        catalog.add(replace(query("q"), text="\ud800"))
    assert catalog.queries() == ()
    catalog.add(query("naïve 🧵 \0 'quoted'"))
    assert catalog.query("NAÏVE 🧵 \0 'QUOTED'").name == "naïve 🧵 \0 'quoted'"


def test_a_closed_catalog_says_so(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    catalog.close()
    catalog.close()
    with pytest.raises(CatalogError, match="closed"):
        catalog.streams()
