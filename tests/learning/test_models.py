"""Every model is a frozen setting that builds a seeded classifier."""

import collections
import typing

import msgspec
import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning.models import AnyModel, Cnn, Imported, Logistic, Lstm, MiniLm, Mlp, ResNet18
from f2ed.learning.vector import flatten, layout

EXAMPLES = [
    Cnn(filters=3, hidden=7),
    Mlp(hidden=(9, 5)),
    Logistic(),
    ResNet18(width=4),
    ResNet18(width=4, norm="batch"),
    Lstm(embedding=2, hidden=3),
    MiniLm(rank=2),
    Imported("torch.nn:Flatten"),
]
ON_IMAGES = EXAMPLES[:5]


def test_every_model_has_an_example():
    assert {type(model) for model in EXAMPLES} == set(typing.get_args(AnyModel))


@pytest.mark.parametrize("model", ON_IMAGES, ids=str)
def test_a_model_scores_every_class_and_its_weights_depend_on_the_seed_alone(model):
    state = torch.get_rng_state()
    first, second, other = model((1, 8, 8), 3, seed=1), model((1, 8, 8), 3, seed=1), model((1, 8, 8), 3, seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.eval()(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    assert torch.equal(flatten(first), flatten(second))
    assert not torch.equal(flatten(first), flatten(other))


@pytest.mark.parametrize("model", EXAMPLES, ids=str)
def test_every_model_survives_a_trip_through_a_settings_file(model):
    assert msgspec.json.decode(msgspec.json.encode(model), type=AnyModel) == model


def test_the_papers_network_has_319520_parameters():
    assert layout(Cnn()((1, 28, 28), 10, 0)).dimension == 319_520


@pytest.mark.parametrize(("model", "size"), [(Mlp(), 79_510), (Logistic(), 7_850)])
def test_dense_models_have_the_sizes_worked_out_by_hand(model, size):
    assert layout(model((1, 28, 28), 10, 0)).dimension == size


def test_resnet18_has_18_layers_with_weights_and_by_default_no_running_statistics():
    network = ResNet18(width=8, norm="batch")((1, 28, 28), 10, 0)
    main = [m for n, m in network.named_modules() if isinstance(m, nn.Conv2d | nn.Linear) and "shortcut" not in n]
    assert len(main) == 18
    assert layout(network).trained < layout(network).dimension
    grouped = layout(ResNet18(width=8)((1, 28, 28), 10, 0))
    assert grouped.trained == grouped.dimension


def test_images_too_small_for_two_poolings_are_refused():
    with pytest.raises(ConfigError, match="3 x 9 are too small"):
        Cnn()((1, 3, 9), 10, 0)


def test_a_model_of_ones_own_gets_its_settings():
    network = Imported("torch.nn:Linear", {"in_features": 4, "out_features": 2})((1, 2, 2), 2, 0)
    assert isinstance(network, nn.Linear)
    assert network.weight.shape == (2, 4)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("torch.nn", "is not an import path"),
        ("nowhere.at_all:Model", "cannot be imported"),
        ("torch.nn:NoSuchThing", "torch.nn has no NoSuchThing"),
        ("torch:pi", "is a float; it must be a class or a function"),
        (f"{collections.__name__}:OrderedDict", "returned a OrderedDict; it must return a torch.nn.Module"),
    ],
)
def test_a_wrong_import_path_is_refused(path, said):
    with pytest.raises(ConfigError, match=said):
        Imported(path)((1, 8, 8), 2, 0)
