"""Data sets of torch and Hugging Face, and the partitioners of flwr-datasets."""

import sys

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

import f2ed
from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import Given, HuggingFace
from f2ed.learning.partition import FlwrDatasets

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 5)).astype(np.float32), np.arange(60) % 3


def loaded(*splits):
    return Given.of(splits)()


def test_torch_data_sets_give_the_arrays_that_they_hold():
    sets = [TensorDataset(torch.from_numpy(X[part]), torch.from_numpy(Y[part])) for part in (slice(50), slice(50, 60))]
    found = loaded(*sets)
    assert torch.equal(found.train.images, torch.from_numpy(X[:50]))
    assert found.train.labels.tolist() == Y[:50].tolist()
    assert (len(found.test), found.classes) == (10, 3)


class Pictures(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        if at >= 4:
            raise IndexError
        return np.full((6, 5, 3), 51 * at, np.uint8), at % 2


def test_pictures_become_channels_from_zero_to_one():
    found = loaded(Pictures(), Pictures())
    assert found.shape == (3, 6, 5)
    assert found.train.images[3].unique().item() == pytest.approx(0.6)


def test_a_simulation_runs_on_torch_data_sets():
    train, test = (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)) for _ in range(2))
    run = f2ed.simulate(data=(train, test), clients=6, shards=2, rounds=1, estimator="mean")
    assert run.records[0].accuracy is not None
    assert run.header.data_sha256


class Single(Pictures):
    def __getitem__(self, at):
        return np.zeros((2, 2), np.uint8)


class Uneven(Pictures):
    def __getitem__(self, at):
        return np.zeros((at + 1, 2), np.uint8), 0


class Empty(Pictures):
    def __len__(self):
        return 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Single, "does not return pairs"), (Uneven, "different shapes"), (Empty, "training set has no samples")],
)
def test_what_is_no_data_set_is_refused(kind, words):
    with pytest.raises(ConfigError, match=words):
        loaded(kind(), kind())


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("datasets", HuggingFace("somewhere")),
        ("flwr_datasets", lambda: FlwrDatasets("IidPartitioner")(Y, 3, 0)),
    ],
)
def test_a_missing_package_is_named(module, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"pip install {module.replace('_', '-')}"):
        call()


@pytest.mark.filterwarnings("ignore")
class TestHuggingFace:
    @pytest.fixture
    def saved(self, tmp_path):
        library = pytest.importorskip("datasets")
        rows = {"img": X.tolist(), "label": Y.tolist(), "hospital": [f"h{at % 4}" for at in range(60)]}
        splits = library.DatasetDict(
            {"train": library.Dataset.from_dict(rows), "test": library.Dataset.from_dict(rows)}
        )
        splits.save_to_disk(str(tmp_path / "saved"))
        return splits, str(tmp_path / "saved")

    def test_a_saved_folder_is_read(self, saved):
        found = HuggingFace(saved[1], client="hospital")()
        assert torch.equal(found.train.images, torch.from_numpy(X))
        assert found.owners.tolist() == [at % 4 for at in range(60)]

    def test_splits_are_taken_by_value(self, saved):
        run = f2ed.simulate(data=saved[0], clients=6, shards=2, rounds=1, estimator="mean")
        assert run.records[0].accuracy is not None

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"sample": "scan"}, "no column 'scan' for the sample"),
            ({"label": "diagnosis"}, "no column 'diagnosis' for the label"),
            ({"client": "ward"}, "no column 'ward' for the client"),
            ({"test_split": "validation"}, "the splits train and validation are needed"),
        ],
    )
    def test_what_it_lacks_is_named(self, saved, more, words):
        with pytest.raises(ConfigError, match=words):
            HuggingFace(saved[1], **more)()

    def test_another_folder_is_refused(self, tmp_path):
        pytest.importorskip("datasets")
        with pytest.raises(ConfigError, match="is no folder that datasets saved"):
            HuggingFace(str(tmp_path))()


@pytest.mark.filterwarnings("ignore")
class TestFlwrDatasets:
    @pytest.mark.parametrize(
        ("name", "settings"),
        [
            ("IidPartitioner", {}),
            ("DirichletPartitioner", {"alpha": 0.5, "min_partition_size": 1}),
            ("PathologicalPartitioner", {"num_classes_per_partition": 2}),
        ],
    )
    def test_every_sample_goes_to_one_client_and_the_seed_decides(self, name, settings):
        pytest.importorskip("flwr_datasets")
        rule = FlwrDatasets(name, settings)
        first, again = (rule(Y, 6, 3) for _ in range(2))
        every = np.concatenate(first.rows)
        assert len(set(every.tolist())) == len(every)
        assert [rows.tolist() for rows in first.rows] == [rows.tolist() for rows in again.rows]

    @pytest.mark.parametrize(
        ("name", "settings", "words"),
        [
            ("NoPartitioner", {}, "flwr-datasets has no NoPartitioner; it has"),
            ("DirichletPartitioner", {"beta": 1}, "unexpected keyword argument 'beta'"),
            ("IidPartitioner", {"num_partitions": 4}, "makes 4 partitions for 6 clients"),
        ],
    )
    def test_bad_settings_are_refused(self, name, settings, words):
        pytest.importorskip("flwr_datasets")
        with pytest.raises(ConfigError, match=words):
            FlwrDatasets(name, settings)(Y, 6, 0)
