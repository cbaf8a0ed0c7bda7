"""Clients that take turns share one recorded step and nothing else; here the recording is a plain step, for a CPU."""

import pytest
import torch

from f2ed.learning.fast import batched
from f2ed.learning.fast.batch_plan import plan_batches
from f2ed.learning.fast.batched import train_in_turn
from f2ed.learning.fast.gradients import one_by_one
from f2ed.learning.optimizer import Training
from f2ed.learning.vector import flatten, layout
from tests.learning.cohorts import ROUND, SEED, Attentive, jobs, reference


class Plain:
    """What a recording does, without a graph."""

    def __init__(self, training, _):
        self.training = training

    def replay(self, schedule):
        for at in range(len(schedule.active)):
            images = batched._pick(schedule, schedule.index[at])
            self.training.step(images, schedule.labels[at], schedule.shares[at])


@pytest.mark.parametrize("optimizer", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"optimizer": "adam"}], ids=str)
def test_all_clients_and_rounds_of_a_setting_use_one_recording_and_get_what_the_reference_gives(optimizer, monkeypatch):
    monkeypatch.setattr(batched, "_Recording", Plain)
    model = Attentive()
    start, trained = flatten(model), layout(model).trained
    training = Training(lr=0.05, batch_size=5, local_epochs=2, **optimizer)
    elsewhere = start.clone()
    elsewhere[:trained] += 0.01
    work = [*jobs(training), *jobs(training, sizes=(9, 4), start=elsewhere), *jobs(Training(lr=0.02, batch_size=5))]
    recordings = {}
    for _ in range(2):
        out = torch.full((len(work), len(start)), torch.nan)
        for schedule in plan_batches(work, SEED, ROUND):
            train_in_turn(start, trained, schedule, out, one_by_one(model), recordings)
        torch.testing.assert_close(out, reference(model, work))
    assert len(recordings) == 2
