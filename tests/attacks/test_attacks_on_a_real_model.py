"""Attacks drive real local training and a plain mean is vulnerable to them."""

from functools import cache

import msgspec
import numpy as np
import pytest
import torch

from f2ed import attacks as a
from f2ed.core.randomness import stream
from f2ed.estimators import FilterL2, Mean
from f2ed.learning import ClientData, Cohort, Evaluator, Samples, Training, TrainingJob, flatten
from f2ed.learning.datasets import Digits
from f2ed.learning.models import Mlp
from tests.attacks.attack_examples import EXAMPLES, name

N, MALICIOUS = 40, (0, 5, 10, 15)
SHARDS = tuple(tuple(range(first, first + 2)) for first in range(0, N, 2))
TRAINING = Training(lr=0.2, batch_size=10, local_epochs=5)


@cache
def digits():
    return Digits()()


@cache
def clients():
    train = digits().train
    return [Samples(train.images[i::N], train.labels[i::N]) for i in range(N)]


class Work:
    """Training of the malicious clients by a cohort; each call is another training in the same round."""

    def __init__(self, cohort, model, current):
        self.cohort, self.model, self.current, self.calls = cohort, model, current, 0

    def __call__(self, data, *, overrides=a.NO_OVERRIDES, start=None, proximal=None, mask=None):
        settings = {"local_epochs": overrides.epochs, "lr": overrides.lr, "momentum": overrides.momentum}
        settings |= {
            "weight_decay": overrides.weight_decay,
            "batch_size": overrides.batch_size,
            "optimizer": overrides.optimizer,
        }
        training = msgspec.structs.replace(TRAINING, **{k: v for k, v in settings.items() if v is not None})
        self.calls += 1
        jobs = [
            TrainingJob(
                client,
                ClientData.of(Samples(*data[i])),
                training,
                start=None if start is None else start[i],
                proximal=proximal and a.ProximalTerm(proximal.strength, proximal.center.expand(len(data), -1)[i]),
                mask=None if mask is None else mask[i],
                repeat=self.calls,
            )
            for i, client in enumerate(MALICIOUS)
        ]
        return self.cohort(self.model, jobs, seed=0, round_=self.current)


def run(attack, estimator, rounds=6):
    """Train the model on digits with shards of two; return accuracy and success after the last round."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = digits()
    module = Mlp(hidden=(32,)).build(data.shape, data.classes)
    evaluator, cohort, model = Evaluator(module), Cohort(module), flatten(module)
    palette = a.Palette(data.black, data.white)
    goal = attack.goal(
        a.EvaluationData(a.Examples(data.test.images, data.test.labels), data.classes, palette, stream(0, "goal"))
    )
    honest = [client for client in range(N) if client not in MALICIOUS]
    for current in range(rounds):
        jobs = [TrainingJob(client, ClientData.of(clients()[client]), TRAINING) for client in honest]
        updates = dict(zip(honest, cohort(model, jobs, seed=0, round_=current), strict=True))
        malicious = a.MaliciousClients(
            data=tuple(a.Examples(clients()[client].images, clients()[client].labels) for client in MALICIOUS),
            train=Work(cohort, model, current),
            model=model,
            honest=a.TrainingOverrides(epochs=5, lr=0.2, momentum=0.0, weight_decay=0.0, batch_size=10),
            shards=SHARDS,
            malicious=MALICIOUS,
            classes=data.classes,
            palette=palette,
            goal=goal,
            round=current,
            rng=stream(0, "crew", current),
        )
        view = a.AttackerView(
            own=attack.train(malicious),
            benign=torch.stack([updates[client] for client in honest]),
            model=model,
            estimator=estimator,
            shards=SHARDS,
            malicious=MALICIOUS,
            tensors=tuple(parameter.numel() for parameter in module.parameters()),
            round=current,
            rng=stream(0, "attack", current),
        )
        updates |= dict(zip(MALICIOUS, attack(view), strict=True))
        means = torch.stack([torch.stack([updates[client] for client in members]).mean(0) for members in SHARDS])
        model = model + estimator(means).mean
    accuracy = evaluator.score(model, data.test).accuracy
    return accuracy, None if goal is None else goal.success(evaluator.predictions(model, goal.images)).others


@pytest.mark.parametrize("attack", EXAMPLES.values(), ids=name)
def test_any_attack_runs_for_a_round(attack):
    accuracy, success = run(attack, Mean(), rounds=1)
    assert np.isfinite(accuracy)
    assert success is None or 0 <= success <= 1


def test_model_replacement_opens_a_backdoor_that_a_filter_keeps_shut():
    accuracy, success = run(a.ModelReplacement(), Mean())
    assert accuracy > 0.8
    assert success > 0.9
    accuracy, success = run(a.ModelReplacement(), FilterL2(0.2))
    assert accuracy > 0.8
    assert success < 0.1


def test_the_bars_of_four_clients_together_open_a_backdoor():
    accuracy, success = run(a.DBA(boost="replacement"), Mean())
    assert accuracy > 0.8
    assert success > 0.8


def test_model_poisoning_fools_a_plain_mean_on_the_images_it_chose():
    attack = a.ModelPoisoning(images=5, strategy="explicit")
    assert run(attack, Mean())[1] > 0.7
    accuracy, success = run(attack, FilterL2(0.2))
    assert accuracy > 0.8
    assert success < 0.5
