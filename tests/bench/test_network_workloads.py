"""The workloads of the network: how many queries, what their rows are like, and that weft understands all of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.network_workloads import fed_examples, fed_rows, files, flights, med_rows, selections
from bench.network_workloads.fed_chains import Chain, chain_select, gaussian_mixture, normal, uniform
from bench.network_workloads.files import FED, MED
from bench.network_workloads.query import WorkloadQuery
from bench.network_workloads.sets import SETS, bound
from weft.algebra import Select
from weft.predicates.normal_forms import conjunctive_form


@pytest.fixture(scope="module")
def transfers() -> pa.Table:
    return fed_rows.fed_rows(fed_rows.HISTORY)


# --- queries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_every_set_has_its_size_and_is_understood(name: str) -> None:
    chosen = SETS[name]
    queries = chosen.queries()
    assert len(queries) == chosen.size
    assert len({query.name for query in queries}) == chosen.size
    assert len(bound(chosen.stream, queries)) == chosen.size


def test_the_grid_has_768_queries() -> None:
    """Each chain of two records is there four times, since it has no split."""
    texts = [query.select for query in SETS["QIMQOSJPFed-Manual"].queries()]
    assert len(texts) == 4 * 2 * 2 * 2 * 6 * 4 == 768
    assert len(set(texts[:192])) == 48
    assert len(set(texts[192:])) == 576


def test_the_medical_aggregates_repeat_their_first_36() -> None:
    texts = [query.select for query in SETS["QAggreMed"].queries()]
    assert texts[414:] == texts[:36]
    assert len(set(texts)) == 414


@pytest.mark.parametrize("draw", [uniform, normal, gaussian_mixture])
def test_more_chains_begin_with_the_same_ones(draw: object) -> None:
    assert callable(draw)
    assert draw(50) == draw(80)[:50]
    assert draw(50, seed=9) != draw(50)


def test_three_hands_write_the_same_conditions() -> None:
    """Texts of a step differ from form to form, and are one condition in the one way to write it."""
    texts, literals = [], []
    for records, kind in [(3, "account"), (4, "bank"), (5, "account")]:
        text = chain_select(Chain(records, "forward", kind, 50_000, 30, 2))
        (query,) = bound(FED, [WorkloadQuery("q", text)])
        assert isinstance(query.relation, Select)
        texts.append(set(text.split(" AND ")))
        literals.append({each.text for each in conjunctive_form(query.relation.where).disjunctions})
    first_step = {"r1.amount - 2*r2.amount < 0", "r1.tran_date - r2.tran_date >= -2592000000000"}
    assert all(first_step <= each for each in literals)
    assert len(texts[0] & texts[1] & texts[2]) < len(literals[0] & literals[1] & literals[2])


def test_selections_and_other_examples_are_understood() -> None:
    chosen = selections.selections(1_000)
    assert selections.selections(10) == chosen[:10]
    assert len({each.condition for each in chosen}) > 900
    bound(FED, chosen)
    bound(FED, fed_examples.fed_group_pairs())
    assert flights.flight_joins(10) == flights.flight_joins(200)[:10]


# --- rows ------------------------------------------------------------------------------------------------------------


def test_transfers_are_as_the_source_says(transfers: pa.Table) -> None:
    rows = transfers.num_rows
    large = pc.sum(pc.greater(transfers["amount"], Decimal(500_000))).as_py()
    assert 0.0008 * rows < large < 0.0012 * rows
    assert pc.sum(pc.equal(transfers["type_code"], 1000)).as_py() > 0.5 * rows
    days = pc.unique(transfers["tran_date"])
    assert len(days) == 10
    assert {day.strftime("%Y-%m") for day in days.to_pylist()} == {"2002-11"}


@pytest.mark.parametrize(("bank", "account"), [("rbank_aba", "benef_account"), ("sbank_aba", "orig_account")])
def test_transfers_fall_into_the_groups_that_the_source_counted(transfers: pa.Table, bank: str, account: str) -> None:
    initial = pc.utf8_slice_codeunits(transfers[account], 0, 1)
    table = pa.table({"bank": transfers[bank], "day": transfers["tran_date"], "initial": initial})
    assert table.group_by(["bank", "day"]).aggregate([]).num_rows == 10_000
    # 100,000 · (1 − e⁻³), give or take four standard deviations of 63.
    assert abs(table.group_by(["bank", "day", "initial"]).aggregate([]).num_rows - 95_021) < 252


def test_an_account_belongs_to_one_bank(transfers: pa.Table) -> None:
    pairs = transfers.group_by(["sbank_aba", "orig_account"]).aggregate([])
    assert pairs.num_rows == len(pc.unique(transfers["orig_account"]))


def test_there_are_chains_of_five_transfers() -> None:
    """Receivers of money that has come over k transfers, each of the same amount as the one before."""
    table = fed_rows.fed_rows(100_000).select(["orig_account", "benef_account", "amount"])
    reached = {(each["benef_account"], each["amount"]) for each in table.to_pylist()}
    for _ in range(4):
        reached = {
            (each["benef_account"], each["amount"])
            for each in table.to_pylist()
            if (each["orig_account"], each["amount"]) in reached
        }
    assert reached


@pytest.mark.parametrize("rows_of", [fed_rows.fed_rows, med_rows.med_rows])
def test_a_seed_gives_the_same_rows_and_more_rows_begin_with_the_same(rows_of: object) -> None:
    assert callable(rows_of)
    assert rows_of(2_000).equals(rows_of(5_000).slice(0, 2_000))
    assert not rows_of(2_000, seed=1).equals(rows_of(2_000))


def test_discharges_are_in_the_order_of_time_and_patients_come_again() -> None:
    table = med_rows.med_rows(20_000)
    assert table.column_names == list(med_rows.COLUMNS)
    clock = table["adate"].cast(pa.int64()).to_numpy()
    assert (clock[1:] >= clock[:-1]).all()
    people = ["bdate", "sex", "zip", "townid"]
    visits = table.group_by(people).aggregate([([], "count_all")])
    assert pc.max(visits["count_all"]).as_py() > 1
    infections = {code[:3] for code in table["dxs_01"].to_pylist() if code < "139"}
    assert len(infections) > 100


def test_files_hold_the_history_and_then_increments(tmp_path: Path) -> None:
    folder = FED.write(tmp_path / "fed", increments=3, history=1_000, increment=100)
    written = files.files_of(folder)
    assert [pq.read_metadata(file).num_rows for file in written] == [1_000, 100, 100, 100]
    together = pa.concat_tables([pq.read_table(file) for file in written])
    assert together.equals(fed_rows.fed_rows(1_300))
    times = [file.stat().st_mtime for file in written]
    assert times == sorted(set(times))
    assert MED.statement(folder).startswith("CREATE STREAM med (recid BIGINT, ")
