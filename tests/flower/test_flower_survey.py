"""A survey of updates over a grid of real nodes: the server learns counts of shards, and proposes clips from them."""

import msgspec
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from f2ed.core.errors import ConfigError
from f2ed.deployment.masked_metrics import merged_metrics
from f2ed.deployment.training_rules import ANYTHING
from f2ed.flower.clip_survey import SURVEY, SURVEY_METRIC, clip_survey, propose_clips
from tests.flower.fake_grid import model, server

NAMED = {"training": msgspec.structs.replace(ANYTHING, metrics=merged_metrics((), [SURVEY_METRIC]))}


def arrays(weight, mean):
    found = {"conv.weight": np.full((2, 3), weight), "bn.running_mean": np.full(4, mean), "steps": np.array([7])}
    return ArrayRecord({name: Array(values) for name, values in found.items()})


def answer(client, _round):
    """Client 5 has the largest update: 0.06 in a coordinate, and 1.2 in a buffer."""
    return {SURVEY: clip_survey(arrays(1.0, 0.0), arrays(1.0 + 0.01 * (client + 1), 0.2 * (client + 1)))}


def test_the_clips_of_a_survey_fit_the_largest_update_and_no_metric_leaves_in_the_clear(federation):
    grid, _, roster = federation(fields=NAMED, measure=answer)
    found = propose_clips(server(roster).measure(grid, model()), margin=2)
    assert (found.clip_value, found.buffer_clip, found.clip_norm) == (2 / 16, 2 * 2, 2 / 4)
    assert (found.clients, found.options()) == (6, "--clip-value 0.125 --buffer-clip 4")
    assert all(list(reply.content) == ["f2ed"] and not reply.content.metric_records for reply in grid.replies)


def test_arrays_named_as_buffers_count_as_such():
    before, after = arrays(1.0, 0.0), arrays(1.5, 0.0)
    assert clip_survey(before, after, buffers=["other*"]) == clip_survey(before, after)
    moved = arrays(1.5, 8.0)
    assert clip_survey(before, moved, buffers=["other*"]) != clip_survey(before, moved)


def test_a_trained_model_with_other_arrays_is_refused():
    with pytest.raises(ConfigError, match="lacks 'steps'"):
        clip_survey(arrays(1.0, 0.0), ArrayRecord({n: a for n, a in arrays(1.0, 0.0).items() if n != "steps"}))
