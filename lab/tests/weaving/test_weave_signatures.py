from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.weave_signatures import signatures_of
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq

QA = Acq(Window(8, 5), predicate="a")
QB = Acq(Window(5, 4), predicate="b")


def test_who_reads_which_signature_in_the_source_example() -> None:
    """Two groups, one predicate each: 01 is read by one of them, 10 by the other, 11 by both, 00 by none."""
    signatures = signatures_of([{QA: 1}, {QB: 1}])
    only_a, only_b = signatures.signature("a"), signatures.signature("b")
    assert {only_a, only_b, signatures.signature("ab")} == {0b01, 0b10, 0b11}
    assert signatures.readers(only_a) == [0]
    assert signatures.readers(only_b) == [1]
    assert signatures.readers(0b11) == [0, 1]
    assert [signatures.references(signature) for signature in (0b00, only_a, only_b, 0b11)] == [0, 1, 1, 2]
    # q_a's fragment at edge 3 is made of all nodes with its bit.
    assert signatures.entries(0, [0b01, 0b10, 0b11]) == {"a": (only_a, 0b11)}


def test_one_group_of_two_predicates_has_two_streams_of_partials() -> None:
    signatures = signatures_of([{QA: 1, QB: 1}])
    assert signatures.entries(0, [0, 1, 2, 3]) == {"a": (1, 3), "b": (2, 3)}
    assert signatures.references(3) == 1
    assert signatures.most_shards(0) == 3


def test_queries_of_all_rows_read_every_signature() -> None:
    everyone = Acq(Window(5, 4))
    signatures = signatures_of([{QA: 1}, {everyone: 1}])
    assert signatures.references(0) == 1
    assert signatures.entries(1, [0, 1]) == {"": (0, 1)}
    assert signatures.most_shards(1) == 2


def test_a_new_predicate_takes_a_bit_above_all_others() -> None:
    before = signatures_of([{QA: 1}, {QB: 1}])
    after = signatures_of([{QA: 1}, {QB: 1, Acq(Window(5, 4), predicate="A before a"): 1}], before)
    assert after.predicates[:2] == before.predicates
    assert after.predicates[2] == "A before a"


def test_the_highest_bit_is_given_up_and_a_lower_one_stays_idle() -> None:
    before = signatures_of([{QA: 1}, {QB: 1}])
    assert signatures_of([{QA: 1}], before).predicates == ("a",)
    without_a = signatures_of([{QB: 1}], before)
    assert without_a.predicates == ("a", "b")
    assert signatures_of([{QB: 1}]).predicates == ("b",)


predicates = ["", "a", "b", "c"]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    st.lists(st.frozensets(st.sampled_from(predicates), min_size=1), min_size=1, max_size=4),
    st.lists(st.frozensets(st.sampled_from(predicates[1:])), max_size=30),
)
def test_partials_by_signature_give_every_predicate_its_rows_and_no_others(
    groups: list[frozenset[str]], rows: list[frozenset[str]]
) -> None:
    members = [{Acq(Window(1, 1), predicate=predicate): 1 for predicate in group} for group in groups]
    signatures = signatures_of(members)
    counts: dict[int, int] = defaultdict(int)
    for satisfied in rows:
        counts[signatures.signature(satisfied & set(signatures.predicates))] += 1
    for number, group in enumerate(groups):
        read: set[int] = set()
        for predicate, entries in signatures.entries(number, counts).items():
            expected = sum(not predicate or predicate in satisfied for satisfied in rows)
            assert sum(counts[signature] for signature in entries) == expected
            read |= set(entries)
        assert read == {signature for signature in counts if number in signatures.readers(signature)}
        assert len(read) <= signatures.most_shards(number)
        assert set(signatures.entries(number, counts)) == group
