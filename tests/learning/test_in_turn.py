"""Recorded steps serve many clients and rounds and share nothing else; here a recording is a plain step, for a CPU."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from f2ed.learning.fast import batched
from f2ed.learning.fast.batch_plan import plan_batches
from f2ed.learning.fast.batched import train_batched, train_in_turn
from f2ed.learning.fast.gradients import one_by_one
from f2ed.learning.optimizer import Training
from f2ed.learning.vector import flatten, layout
from tests.learning.cohorts import ROUND, SEED, Attentive, jobs, reference


class Plain:
    """What a recording does, without a graph or a stream."""

    made: ClassVar[list[int]] = []

    def __init__(self, training, _, clients, pool=None):
        self.training, self.clients, self.graph = training, clients, SimpleNamespace(pool=lambda: pool)
        self.made.append(clients)

    def begin(self):
        pass

    def end(self):
        pass

    def on_its_stream(self):
        return nullcontext()

    def step(self, schedule, at):
        few = slice(self.clients)
        images = batched._pick(schedule, schedule.index[at, few])
        self.training.step(images, schedule.labels[at, few], schedule.shares[at, few])


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setattr(batched, "_Recording", Plain)
    monkeypatch.setattr(Plain, "made", [])


@pytest.mark.parametrize("optimizer", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"optimizer": "adam"}], ids=str)
@pytest.mark.parametrize("lanes", [1, 3])
def test_all_clients_and_rounds_of_a_setting_use_one_recording_and_get_what_the_reference_gives(
    optimizer, lanes, monkeypatch
):
    monkeypatch.setattr(batched, "_LANES", lanes)
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
    assert Plain.made == [1] * 2 * lanes


def test_streams_that_do_not_fit_into_memory_leave_their_clients_to_the_others(monkeypatch):
    def full(training, plan, clients):
        if len(Plain.made) == 2:
            raise torch.OutOfMemoryError
        return Plain(training, plan, clients)

    monkeypatch.setattr(batched, "_Recording", full)
    model, work = Attentive(), jobs()
    out = torch.full((len(work), layout(model).dimension), torch.nan)
    (schedule,) = plan_batches(work, SEED, ROUND)
    train_in_turn(flatten(model), layout(model).trained, schedule, out, one_by_one(model), {})
    torch.testing.assert_close(out, reference(model, work))
    monkeypatch.setattr(Plain, "made", [0, 0])
    with pytest.raises(torch.OutOfMemoryError):
        train_in_turn(flatten(model), layout(model).trained, schedule, out, one_by_one(model), {})


@pytest.mark.parametrize("optimizer", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"optimizer": "adam"}], ids=str)
def test_steps_of_unequal_clients_are_recorded_for_fewer_and_fewer_and_kept_for_later_rounds(optimizer, monkeypatch):
    monkeypatch.setattr(batched, "_WORTH_SAVING", 3)
    monkeypatch.setattr(batched, "_WORTH_RECORDING", 4)
    monkeypatch.setattr(batched, "_records", lambda _: True)
    model = Attentive()
    start, trained = flatten(model), layout(model).trained
    # 16, 8, 4, 2, 2, and 2 steps.
    work = jobs(Training(lr=0.05, batch_size=5, local_epochs=2, **optimizer), sizes=(40, 20, 10, 5, 5, 3))
    recordings = {}
    for _ in range(2):
        out = torch.full((len(work), len(start)), torch.nan)
        (schedule,) = plan_batches(work, SEED, ROUND)
        train_batched(start, trained, schedule, out, one_by_one(model), recordings)
        torch.testing.assert_close(out, reference(model, work))
    assert Plain.made == [6, 3, 2, 1]


@pytest.mark.parametrize("slope", [0.5, 1, 2])
def test_steps_replayed_for_clients_that_have_ended_are_few(slope):
    active = tuple(sorted((max(1, round(100 * (1 - at / 120) ** slope)) for at in range(120)), reverse=True))
    levels = batched._levels(active)
    replayed = sum(min(size for size in levels if size >= k) for k in active)
    assert replayed < 1.3 * sum(active)
    assert len(levels) < 15


def test_clients_with_a_mask_keep_nothing_for_later_rounds(monkeypatch):
    monkeypatch.setattr(batched, "_records", lambda _: True)
    model, recordings = Attentive(), {}
    work = jobs(mask=torch.arange(layout(model).dimension) % 2 == 0)
    out = torch.full((len(work), layout(model).dimension), torch.nan)
    (schedule,) = plan_batches(work, SEED, ROUND)
    train_batched(flatten(model), layout(model).trained, schedule, out, one_by_one(model), recordings)
    torch.testing.assert_close(out, reference(model, work))
    assert recordings == {}
