"""A recurrent network for characters, and MiniLM with adapters of which only B is trained."""

import numpy as np
import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning import Cohort
from f2ed.learning.client import ClientData, TrainingJob
from f2ed.learning.datasets import Samples
from f2ed.learning.losses import NextToken
from f2ed.learning.models import Lstm, MiniLm, minilm
from f2ed.learning.optimizer import Training
from f2ed.learning.vector import flatten, layout, load

WIDTH, WORDS, LENGTH = 64, 11, 5


def published(layers=2):
    """Return tensors named as those of MiniLM, smaller."""
    draws = torch.Generator().manual_seed(1)

    def some(*shape):
        return torch.randn(shape, generator=draws) / 4

    names = {"embeddings.word_embeddings.weight": some(WORDS, WIDTH)}
    names["embeddings.position_embeddings.weight"] = some(LENGTH + 2, WIDTH)
    names["embeddings.token_type_embeddings.weight"] = some(2, WIDTH)
    for norm in (
        "embeddings",
        *(f"encoder.layer.{at}.{part}output" for at in range(layers) for part in ("attention.", "")),
    ):
        names[f"{norm}.LayerNorm.weight"], names[f"{norm}.LayerNorm.bias"] = 1 + some(WIDTH), some(WIDTH)
    for at in range(layers):
        inside = f"encoder.layer.{at}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            names[f"{inside}.{part}.weight"], names[f"{inside}.{part}.bias"] = some(WIDTH, WIDTH), some(WIDTH)
        names[f"{inside}.intermediate.dense.weight"] = some(3 * WIDTH, WIDTH)
        names[f"{inside}.intermediate.dense.bias"] = some(3 * WIDTH)
        names[f"{inside}.output.dense.weight"], names[f"{inside}.output.dense.bias"] = (
            some(WIDTH, 3 * WIDTH),
            some(WIDTH),
        )
    return names


@pytest.fixture
def weights(monkeypatch):
    tensors = published()
    monkeypatch.setattr(minilm, "read_bundle", lambda *_: {"model.safetensors": b""})
    monkeypatch.setattr(minilm, "tensors_of", lambda *_: tensors)
    return tensors


TOKENS = torch.tensor([[2, 5, 6, 3, 0], [2, 7, 3, 0, 0], [2, 1, 9, 10, 3]])


def test_an_lstm_equals_that_of_torch():
    model = Lstm(embedding=3, hidden=4, layers=2)((6,), 7, seed=0)
    theirs = nn.LSTM(3, 4, num_layers=2, batch_first=True)
    # Torch orders the gates as enter, keep, new, leave; here new comes last.
    order = torch.tensor([0, 1, 3, 2])
    for at in range(2):
        by_input, by_state = model[1 + at].by_input, model[1 + at].by_state
        new = {
            f"weight_ih_l{at}": by_input.weight.unflatten(0, (4, 4))[order].flatten(0, 1),
            f"bias_ih_l{at}": by_input.bias.unflatten(0, (4, 4))[order].flatten(),
            f"weight_hh_l{at}": by_state.weight.unflatten(0, (4, 4))[order].flatten(0, 1),
            f"bias_hh_l{at}": torch.zeros(16),
        }
        theirs.load_state_dict(theirs.state_dict() | new)
    tokens = torch.randint(7, (2, 6))
    torch.testing.assert_close(model(tokens), model[-1](theirs(model[0](tokens))[0]))


def test_clients_of_an_lstm_train_at_once():
    model = Lstm(embedding=2, hidden=3)((4,), 5, seed=0)
    tokens = torch.randint(5, (6, 5), generator=torch.Generator().manual_seed(0))
    data = ClientData.of(Samples(tokens[:, :-1], tokens[:, 1:]))
    train = Cohort(model, loss=NextToken(), workers=1)
    train(flatten(model), [TrainingJob(0, data, Training(lr=0.1, batch_size=2))], seed=0, round_=0)
    assert train.path == "vmap"


@pytest.mark.parametrize("model", [Lstm(), MiniLm()], ids=["lstm", "minilm"])
@pytest.mark.usefixtures("weights")
def test_images_are_refused(model):
    with pytest.raises(ConfigError, match=r"needs sequences of tokens, \(length,\)"):
        model((1, 8, 8), 3, 0)


@pytest.mark.usefixtures("weights")
def test_only_b_and_the_classifier_are_trained_and_sent():
    model = MiniLm(rank=3)((LENGTH,), 4, seed=0)
    names = [f"layers.{at}.{part}.b" for at in range(2) for part in ("query", "value")]
    assert layout(model).names == (*names, "classify.weight", "classify.bias")
    assert layout(model).trained == layout(model).dimension == 4 * 3 * WIDTH + 4 * WIDTH + 4
    assert layout(MiniLm(rank=0)((LENGTH,), 4, seed=0)).names == ("classify.weight", "classify.bias")


@pytest.mark.usefixtures("weights")
def test_a_is_the_same_for_every_seed_and_an_untrained_b_changes_nothing():
    one, other = (MiniLm(rank=3)((LENGTH,), 4, seed=seed) for seed in (1, 2))
    assert torch.equal(one.layers[0].query.a, other.layers[0].query.a)
    bare = MiniLm(rank=0)((LENGTH,), 4, seed=1)
    torch.testing.assert_close(one(TOKENS), bare(TOKENS))


@pytest.mark.usefixtures("weights")
def test_the_mean_of_two_models_has_the_mean_of_their_additions():
    model = MiniLm(rank=3)((LENGTH,), 4, seed=0)
    vectors = torch.randn(2, layout(model).dimension, generator=torch.Generator().manual_seed(0))
    additions = []
    for vector in (*vectors, vectors.mean(0)):
        load(model, vector)
        additions.append(model.layers[1].value.b @ model.layers[1].value.a)
    torch.testing.assert_close(additions[2], (additions[0] + additions[1]) / 2)


def test_the_encoder_equals_torchs_own_layers(weights):
    model = MiniLm(rank=2)((LENGTH,), 4, seed=0).eval()
    states = weights["embeddings.word_embeddings.weight"][TOKENS]
    states = states + weights["embeddings.position_embeddings.weight"][:LENGTH]
    states = states + weights["embeddings.token_type_embeddings.weight"][0]
    states = model.norm(states)
    for at in range(2):
        theirs = nn.TransformerEncoderLayer(WIDTH, WIDTH // 32, 3 * WIDTH, 0.0, "gelu", 1e-12, batch_first=True)
        given, name = theirs.state_dict(), f"encoder.layer.{at}"
        parts = [weights[f"{name}.attention.self.{part}.weight"] for part in ("query", "key", "value")]
        biases = [weights[f"{name}.attention.self.{part}.bias"] for part in ("query", "key", "value")]
        new = {"self_attn.in_proj_weight": torch.cat(parts), "self_attn.in_proj_bias": torch.cat(biases)}
        for ours, own in {
            "attention.output.dense": "self_attn.out_proj",
            "attention.output.LayerNorm": "norm1",
            "intermediate.dense": "linear1",
            "output.dense": "linear2",
            "output.LayerNorm": "norm2",
        }.items():
            new |= {f"{own}.{kind}": weights[f"{name}.{ours}.{kind}"] for kind in ("weight", "bias")}
        theirs.load_state_dict(given | new)
        states = theirs.train()(states, src_key_padding_mask=TOKENS == 0)
    shown = (TOKENS != 0).float().unsqueeze(2)
    pooled = nn.functional.normalize((states * shown).sum(1) / shown.sum(1), dim=1)
    torch.testing.assert_close(model(TOKENS), model.classify(pooled))


@pytest.mark.usefixtures("weights")
def test_clients_of_minilm_train_at_once_and_the_encoder_stays():
    model = MiniLm(rank=2)((LENGTH,), 4, seed=0)
    data = ClientData.of(Samples(TOKENS, torch.tensor([0, 1, 3])))
    train = Cohort(model, workers=1)
    updates = train(flatten(model), [TrainingJob(0, data, Training(lr=0.5, batch_size=2))], seed=0, round_=0)
    assert train.path == "vmap"
    assert updates.shape == (1, layout(model).dimension)
    assert np.isfinite(updates.numpy()).all()
    assert float(updates[0, -4:].abs().max()) > 0


@pytest.mark.usefixtures("weights")
def test_texts_longer_than_the_encoder_takes_are_refused():
    with pytest.raises(ConfigError, match="texts of 8 tokens; MiniLM takes at most 7"):
        MiniLm()((8,), 4, 0)
