"""Every data set is a frozen setting that returns well-formed tensors, the same each time."""

import typing

import msgspec
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import (
    ARCHIVES,
    Adult,
    AnyDataset,
    Cifar10,
    Digits,
    FashionMnist,
    Mnist,
    Newsgroups,
    Samples,
    Shakespeare,
    Synthetic,
)

COMPUTED = [Digits(), Synthetic(), Synthetic(train=33, test=7, classes=3, side=5, noise=0.1, seed=4)]


@pytest.mark.parametrize("dataset", COMPUTED, ids=str)
def test_images_are_float32_in_0_to_1_with_labels_of_every_class(dataset):
    data = dataset()
    for split in (data.train, data.test):
        assert split.images.dtype == torch.float32
        assert split.labels.dtype == torch.int64
        assert split.images.shape == (len(split), *data.shape)
        assert split.images.min() >= 0
        assert split.images.max() <= 1
    assert sorted(data.train.labels.unique().tolist()) == list(range(data.classes))


@pytest.mark.parametrize("dataset", COMPUTED, ids=str)
def test_a_data_set_is_the_same_each_time(dataset):
    first, second = dataset(), dataset()
    assert torch.equal(first.train.images, second.train.images)
    assert torch.equal(first.test.labels, second.test.labels)


def test_digits_split_1797_images():
    data = Digits(test=100)()
    assert (len(data.train), len(data.test)) == (1697, 100)


def test_synthetic_sets_of_other_seeds_differ():
    assert not torch.equal(Synthetic(seed=1)().train.images, Synthetic(seed=2)().train.images)


@pytest.mark.parametrize("kind", typing.get_args(AnyDataset))
def test_every_data_set_survives_a_trip_through_a_settings_file(kind):
    dataset = kind(**{field.name: "some" for field in msgspec.structs.fields(kind) if field.required})
    assert msgspec.json.decode(msgspec.json.encode(dataset), type=AnyDataset) == dataset


def test_a_wrong_setting_is_refused_with_its_path():
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int` >= 2 - at `\$.classes`"):
        msgspec.json.decode(b'{"kind": "synthetic", "classes": 1}', type=AnyDataset)


def test_the_archives_are_those_of_the_data_sets():
    kinds = (Mnist, FashionMnist, Cifar10, Shakespeare, Newsgroups, Adult)
    assert [archive.name for archive in ARCHIVES] == [*(kind.__struct_config__.tag for kind in kinds), "minilm"]


def test_as_many_labels_as_images_are_wanted():
    with pytest.raises(ConfigError, match="3 images but 2 labels"):
        Samples(torch.zeros(3, 1, 2, 2), torch.zeros(2))
