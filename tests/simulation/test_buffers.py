"""Models with BatchNorm in simulations: what happens to their statistics, and that they train."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402  after the check that torch is there

from f2ed import ConfigError  # noqa: E402
from f2ed.simulation import Simulation, experiment  # noqa: E402
from f2ed.simulation.checkpoint import pack, unpack  # noqa: E402

CLIENTS, TRAINED, BUFFERS = 6, 16 * 6 + 6 + 12 + 6 * 10 + 10, 12


def normalized():
    """Return a small network with one batch normalization, whose inputs have a variance far above 1."""
    return nn.Sequential(
        nn.Flatten(), Scaled(), nn.Linear(16, 6), nn.BatchNorm1d(6, momentum=0.5), nn.ReLU(), nn.Linear(6, 10)
    )


class Scaled(nn.Module):
    def forward(self, inputs):
        return 3 * inputs


def start(**settings):
    given = {
        "data": {"kind": "synthetic", "train": 360, "test": 120, "side": 4},
        "model": normalized,
        "training": {"lr": 0.1},
        "clients": CLIENTS,
        "shards": 2,
        "rounds": 4,
        "estimator": "mean",
    }
    return Simulation(experiment(given | settings), workers=1)


def played(simulation, rounds=4):
    state, records = simulation.start(), []
    for _ in range(rounds):
        state, record = simulation.step(state)
        records.append(record)
    return state, records


def test_statistics_are_averaged_as_without_shards():
    sharded, records = played(start())
    plain, _ = played(start(shards="none"))
    assert records[-1].clipped == 0
    torch.testing.assert_close(sharded.model, plain.model, atol=2e-4, rtol=1e-3)
    first = start().start().model
    assert (sharded.model[TRAINED:] - first[TRAINED:]).abs().max() > 0.5, "they moved far"


def test_a_clip_that_is_too_small_for_them_shows_in_the_record():
    _, records = played(start(buffers={"clip_value": 0.05}), rounds=1)
    assert records[0].clipped > 10


def test_the_server_may_keep_its_statistics():
    simulation = start(buffers="keep")
    state, records = played(simulation)
    first = simulation.start().model
    assert torch.equal(state.model[TRAINED:], first[TRAINED:])
    assert not torch.equal(state.model[:TRAINED], first[:TRAINED])
    assert simulation.header.dimension == TRAINED
    assert records[0].bytes_up < played(start(), rounds=1)[1][0].bytes_up


def test_clients_may_keep_their_own():
    simulation = start(buffers="local")
    state, records = played(simulation)
    assert state.buffers.shape == (CLIENTS, BUFFERS)
    assert (state.buffers[0] - state.buffers[1]).abs().max() > 1e-3
    assert torch.equal(state.model[TRAINED:], simulation.start().model[TRAINED:]), "the server's stay as they are"
    torch.testing.assert_close(simulation.model(state)[3].running_mean, state.buffers[:, :6].mean(0))
    kept, _ = played(start(buffers="keep"))
    assert torch.equal(state.model[:TRAINED], kept.model[:TRAINED]), "statistics do not change the gradients"
    assert records[-1].accuracy > 0.3


def test_the_clients_own_statistics_survive_an_interruption():
    simulation = start(buffers="local")
    whole, _ = played(simulation)
    half, _ = played(simulation, rounds=2)
    again = unpack(pack(half, simulation.digest), simulation.digest, torch.device("cpu"))
    assert torch.equal(again.buffers, half.buffers)
    for _ in range(2):
        again, _ = simulation.step(again)
    assert torch.equal(again.model, whole.model)
    assert torch.equal(again.buffers, whole.buffers)


def test_masked_equals_plain_with_clips_of_single_arrays():
    buffers = {"clip_value": 20.0, "clips": [{"names": "5.*", "clip_value": 0.5}]}
    masked, _ = played(start(buffers=buffers), rounds=2)
    clear, _ = played(start(buffers=buffers, secure=False), rounds=2)
    assert torch.equal(masked.model, clear.model)


def test_averaging_is_the_default_and_names_no_other_run():
    one, other = start(), start(buffers="average")
    assert one.digest == other.digest
    assert start(buffers="keep").digest != one.digest


def test_a_policy_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match="buffers"):
        start(buffers="forget")


def test_momentum_of_the_clients_would_average_what_they_keep():
    with pytest.raises(ConfigError, match="client_momentum: it would average the buffers"):
        start(buffers="local", client_momentum=0.9)


def test_a_variance_never_becomes_negative():
    simulation = start()
    model = simulation.start().model
    after = simulation._buffers.moved(model, torch.full_like(model, -1.5))
    assert torch.equal(after[TRAINED + 6 :], torch.zeros(6))
    torch.testing.assert_close(after[: TRAINED + 6], model[: TRAINED + 6] - 1.5)
