"""Partitions use every sample at most once, follow their rule, and repeat for the same seed."""

import json
import typing

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError
from f2ed.learning.partition import AnyPartition, Assigned, Dirichlet, Iid, NeighboringClasses, Pathological, RareClass

LABELS = np.arange(1000) % 10


@pytest.mark.parametrize("partition", [Iid(), Pathological(3), NeighboringClasses(3), Dirichlet(0.5)], ids=str)
@given(clients=st.integers(1, 25), seed=st.integers(0, 2**40))
@settings(max_examples=25, deadline=None)
def test_no_sample_goes_to_two_clients_and_every_client_has_some(partition, clients, seed):
    assigned = partition(LABELS, clients, seed)
    every = np.concatenate(assigned.rows)
    assert len(assigned.rows) == clients
    assert len(np.unique(every)) == len(every)
    assert min(assigned.sizes) > 0
    assert every.min() >= 0
    assert every.max() < len(LABELS)
    again = partition(LABELS, clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(assigned.rows, again.rows, strict=True))


@pytest.mark.parametrize("partition", [Iid(), Pathological(3), NeighboringClasses(3), Dirichlet(0.5)], ids=str)
def test_other_seeds_give_other_deals(partition):
    assert not np.array_equal(partition(LABELS, 10, 1).rows[0], partition(LABELS, 10, 2).rows[0])


@given(clients=st.integers(1, 60))
def test_iid_clients_have_equal_sizes_and_less_than_one_sample_each_is_unused(clients):
    sizes = Iid()(LABELS, clients, 0).sizes
    assert set(sizes) == {len(LABELS) // clients}


@given(clients=st.integers(1, 40), labels=st.integers(1, 10), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_clients_have_exactly_k_labels_in_equal_portions(clients, labels, seed):
    assigned = Pathological(labels)(LABELS, clients, seed)
    histograms = np.array(assigned.histograms)
    assert ((histograms > 0).sum(1) == labels).all()
    assert len(set(histograms[histograms > 0])) == 1
    takers = (histograms > 0).sum(0)
    assert takers.max() - takers.min() <= 1


def test_only_the_holders_have_the_rare_class_and_no_sample_is_left_over():
    histograms = np.array(RareClass(rare=3, holders=4)(LABELS, 10, 0).histograms)
    assert sorted(histograms[:, 3]) == [0] * 6 + [25] * 4
    assert histograms.sum() == len(LABELS)
    assert histograms[:, :3].sum(1).min() > 0


@pytest.mark.parametrize(("rare", "holders", "clients"), [(3, 11, 10), (12, 1, 10), (3, 101, 200)])
def test_a_class_for_more_clients_than_there_are_is_refused(rare, holders, clients):
    with pytest.raises(ConfigError, match=rf"class {rare} has \d+ samples for {holders} of {clients} clients; use"):
        RareClass(rare=rare, holders=holders)(LABELS, clients, 0)


def test_the_papers_partition_uses_nine_tenths_of_mnists_frequencies():
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    labels = np.repeat(np.arange(10), counts)
    assert set(Pathological(3)(labels, 100, 0).sizes) == {3 * (5421 // 30)}


def test_neighboring_labels_go_round_and_leave_less_than_a_sample_for_each_taker():
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assigned = np.array(NeighboringClasses(3)(np.repeat(np.arange(10), counts), 100, 0).histograms)
    for client, histogram in enumerate(assigned):
        assert set(np.flatnonzero(histogram)) == {(client + step) % 10 for step in range(3)}
    assert all(set(column[column > 0]) == {count // 30} for column, count in zip(assigned.T, counts, strict=True))


def test_a_small_alpha_makes_clients_differ_more_than_a_large_one():
    few = np.array(Dirichlet(0.1)(LABELS, 10, 0).histograms)
    many = np.array(Dirichlet(100.0)(LABELS, 10, 0).histograms)
    assert few.std() > 3 * many.std()
    assert few.sum() == many.sum() == len(LABELS)


def test_an_assignment_is_taken_as_it_is(tmp_path):
    lists = ((0, 5), (3,))
    file = tmp_path / "clients.json"
    file.write_text(json.dumps(lists))
    for partition in (Assigned(clients=lists), Assigned(file=str(file))):
        assigned = partition(LABELS, 2, 0)
        assert [rows.tolist() for rows in assigned.rows] == [[0, 5], [3]]
        assert assigned.sizes == [2, 1]
        assert assigned.histograms[0] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("partition", "clients", "said"),
    [
        (Iid(), 1001, "found 1001 clients for 1000 samples"),
        (Iid(), 0, "found 0 clients"),
        (Pathological(11), 10, "found classes_per_client = 11, but the data has 10 classes"),
        (Pathological(10), 101, "too few for 101 clients"),
        (NeighboringClasses(11), 10, "found classes_per_client = 11, but the data has 10 classes"),
        (NeighboringClasses(10), 101, "too few for 101 clients"),
        (Dirichlet(0.001), 100, "raise alpha"),
        (Dirichlet(0.5, min_samples=11), 100, "fewer than 11 samples"),
        (Assigned(clients=((1,), (2,))), 3, "has 2 clients, but the experiment has 3"),
        (Assigned(clients=((1,), ())), 2, "leaves client 1 without samples"),
        (Assigned(clients=((1,), (1000,))), 2, "names sample 1000; the data has samples 0 to 999"),
        (Assigned(clients=((1,), (-1,))), 2, "names sample -1"),
        (Assigned(clients=((1, 2), (2,))), 2, "uses sample 2 2 times"),
        (Assigned(), 2, "either `file` or `clients`"),
        (Assigned(file="nowhere.json"), 2, r"nowhere\.json cannot be read"),
    ],
    ids=str,
)
def test_an_impossible_partition_is_refused(partition, clients, said):
    with pytest.raises(ConfigError, match=said):
        partition(LABELS, clients, 0)


def test_an_assignment_that_is_no_list_of_lists_is_refused(tmp_path):
    file = tmp_path / "clients.json"
    file.write_text('{"a": 1}')
    with pytest.raises(ConfigError, match=r"clients\.json must be a JSON list of lists"):
        Assigned(file=str(file))(LABELS, 2, 0)


@pytest.mark.parametrize("kind", typing.get_args(AnyPartition))
def test_every_partition_survives_a_trip_through_a_settings_file(kind):
    assert msgspec.json.decode(msgspec.json.encode(kind()), type=AnyPartition) == kind()
