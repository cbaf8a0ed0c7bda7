"""Backdoors that learn their trigger in every round: A3FL and IBA."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from f2ed import attacks as a
from f2ed.core.errors import ConfigError
from tests.attacks.attack_scenes import CLASSES, clients, evaluation

BOTH = pytest.mark.parametrize("attack", [a.A3FL(target=1), a.IBA(target=1)], ids=["a3fl", "iba"])


def obeys(at_work, goal):
    """The mean loss of the wanted labels, at the model of the round."""
    scores = at_work.train.scores(at_work.model, goal.images)
    return float(np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(len(scores)), goal.wanted]))


def trained(attack):
    """Malicious clients whose model has learned the pictures."""
    at_work = clients(attack)
    model = at_work.model + at_work.train(at_work.data).mean(0)
    at_work.train.model = model
    return replace(at_work, model=model)


@BOTH
def test_the_model_of_the_round_obeys_the_learned_trigger_more_than_the_first(attack):
    at_work = trained(attack)
    assert obeys(at_work, attack.learn(at_work)) < obeys(at_work, at_work.goal)


@BOTH
def test_the_clients_train_with_the_trigger_that_is_measured(attack):
    attack = msgspec.structs.replace(attack, share=1.0)
    at_work = trained(attack)
    goal = attack.learn(at_work)
    shown = replace(at_work, data=(a.Examples(goal.clean, goal.labels),), goal=goal)
    (data,) = attack.poison(shown)
    np.testing.assert_array_equal(data.images, goal.images)
    assert set(data.labels) == {1}


@BOTH
def test_the_same_round_learns_the_same_trigger(attack):
    first, again = (attack.learn(trained(attack)) for _ in range(2))
    np.testing.assert_array_equal(first.images, again.images)


@BOTH
def test_without_gradients_no_trigger_can_be_learned(attack):
    with pytest.raises(ConfigError, match="learns its trigger needs"):
        attack.learn(replace(clients(attack), slopes=None))


def test_a3fl_changes_only_the_square_and_stays_between_black_and_white():
    attack = a.A3FL(target=1, trigger=a.Square(size=3, row=2, column=4), blend=0.5)
    palette = a.Palette(-0.5, 2.5)
    at_work = clients(attack, palette=palette)
    goal = attack.learn(at_work)
    changed = np.any(goal.images != goal.clean, axis=(0, 1))
    assert changed[2:5, 4:7].all()
    assert changed.sum() == 9
    assert goal.learned.shape == (1, 3, 3)
    assert goal.learned.min() >= -0.5
    assert goal.learned.max() <= 2.5
    painted = goal.images[..., 2:5, 4:7]
    np.testing.assert_allclose(painted, 0.5 * goal.learned + 0.5 * goal.clean[..., 2:5, 4:7], rtol=1e-5, atol=1e-6)


def test_a3fl_unlearns_every_so_many_steps_on_triggered_images_with_their_true_labels():
    for unlearning, times in ((0.5, 2), (0.0, 0)):
        attack = a.A3FL(steps=9, refresh=4, unlearning=unlearning)
        at_work = clients(attack)
        attack.learn(at_work)
        assert len(at_work.train.calls) == times
        for data, *_ in at_work.train.calls:
            np.testing.assert_array_equal(data[0].labels, at_work.data[0].labels)
            assert np.any(data[0].images != at_work.data[0].images)


@pytest.mark.parametrize(("weight", "ends"), [(0.0, 0.1), (50.0, 0.5)])
def test_the_unlearned_model_counts_with_its_weight(weight, ends):
    attack = a.A3FL(unlearning=weight, steps=4, refresh=2, step_size=0.1, trigger=a.Square(value=0.5))
    pulls = replace(
        clients(attack), slopes=lambda images, _, *, model=None: 1 + 0 * images if model is None else -images
    )
    np.testing.assert_allclose(attack.learn(pulls).learned, ends, rtol=1e-5)


def test_iba_changes_no_pixel_by_more_than_its_reach():
    attack = a.IBA(target=1, reach=0.05, rate=1.0)
    goal = attack.learn(clients(attack, palette=a.Palette(0.0, 2.0)))
    away = np.abs(goal.images - goal.clean).max()
    assert 0.09 < away <= 0.1 + 1e-6


def test_iba_trains_only_weights_that_clean_data_change_least():
    attack = a.IBA(ratio=0.25)
    at_work = clients(attack)
    attack.train(at_work)
    mask = at_work.train.calls[-1][4]
    assert 0.25 <= mask.mean() < 0.3


def test_iba_may_train_all_weights():
    attack = a.IBA(ratio=1.0)
    at_work = clients(attack)
    attack.train(at_work)
    assert [call[4] for call in at_work.train.calls] == [None]


def test_iba_learns_from_a_sample_of_the_images():
    attack = a.IBA(samples=7, steps=1)
    at_work = clients(attack)
    seen = []
    attack.learn(replace(at_work, slopes=lambda images, labels: seen.append(len(labels)) or images * 0))
    assert seen == [7]


def test_a_target_that_the_data_do_not_have_is_refused():
    with pytest.raises(ConfigError, match=f"invalid target label 9: the data has {CLASSES} classes"):
        a.IBA(target=9).goal(evaluation())
