"""Attacks on data and training: what is trained on, how, and what is measured."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from f2ed import attacks as a
from f2ed.attacks._common.triggers import copied, paint, poisoned
from f2ed.attacks.neurotoxin import smallest
from f2ed.core.errors import ConfigError
from tests.attacks.attack_scenes import CLASSES, M, clients, evaluation, pictures, shard_means, view

PALETTE = a.Palette(black=-0.4, white=2.8)
BLANK = np.zeros((3, 1, 28, 28), np.float32)
SMALL = np.zeros((3, 1, 8, 8), np.float32)


def lit(image):
    return {(int(row), int(column)) for row, column in np.argwhere(image[0] != 0)}


def last(at_work):
    return at_work.train.calls[-1]


def accuracy(at_work, weights, images, labels):
    return float((at_work.train.scores(weights, images).argmax(1) == labels).mean())


# Triggers


def test_the_square_is_five_pixels_of_28_and_white():
    painted = paint(BLANK, a.Square().boxes(BLANK), PALETTE.shade(1.0))
    assert lit(painted[2]) == {(row, column) for row in range(5) for column in range(5)}
    assert painted.max() == np.float32(2.8)
    assert not BLANK.any()


def test_the_square_is_painted_where_it_is_set():
    painted = paint(BLANK, a.Square(size=2, row=26, column=3).boxes(BLANK), 1.0)
    assert lit(painted[0]) == {(26, 3), (26, 4), (27, 3), (27, 4)}


def test_a_square_outside_the_image_is_refused():
    with pytest.raises(ConfigError, match="row 29 and column 5 does not fit an image of 28 x 28"):
        paint(BLANK, a.Square(row=24).boxes(BLANK), 1.0)


def test_the_four_bars_are_as_published():
    bars = [lit(paint(BLANK, [box], 1.0)[0]) for box in a.Bars().boxes(BLANK)]
    assert bars == [{(row, first + i) for i in range(4)} for row in (0, 3) for first in (0, 6)]


@pytest.mark.parametrize("trigger", [a.Square(), a.Bars()], ids=repr)
def test_on_small_images_triggers_shrink_but_stay_apart(trigger):
    boxes = trigger.boxes(SMALL)
    pixels = [lit(paint(SMALL, [box], 1.0)[0]) for box in boxes]
    assert all(len(part) >= 2 for part in pixels)
    assert sum(map(len, pixels)) == len(set.union(*pixels)) <= 8


@pytest.mark.parametrize("share", [0.001, 0.25, 1.0])
def test_a_share_of_the_images_is_painted_and_relabeled(share):
    data = pictures(40, np.random.default_rng(0))
    dirty = poisoned(data, share, a.Square().boxes(data.images), 9.0, 2, np.random.default_rng(1))
    painted = (dirty.images == 9).any(axis=(1, 2, 3))
    assert painted.sum() == max(1, round(share * 40))
    assert (dirty.labels[painted] == 2).all()
    np.testing.assert_array_equal(dirty.images[~painted], data.images[~painted])
    np.testing.assert_array_equal(dirty.labels[~painted], data.labels[~painted])
    assert not (data.images == 9).any()


def test_tensors_are_painted_as_arrays_are():
    data = pictures(40, np.random.default_rng(0))
    given = a.Examples(*map(torch.from_numpy, data))
    boxes = a.Bars().boxes(data.images)
    want = poisoned(data, 0.5, boxes, 9.0, 2, np.random.default_rng(1))
    got = poisoned(given, 0.5, boxes, 9.0, 2, np.random.default_rng(1))
    for tensor, array in zip(got, want, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert copied(given.labels).data_ptr() != given.labels.data_ptr()


# Goals


def test_success_is_counted_with_and_without_the_images_of_the_target_class():
    labels = np.array([2, 2, 0, 1, 3])
    goal = a.Goal(np.zeros((5, 1, 8, 8)), np.full(5, 2), labels)
    assert goal.success(np.array([2, 2, 2, 1, 3])) == (1 / 3, 3 / 5)
    assert goal.success(labels) == (0.0, 2 / 5)  # the floor of the released code's way of counting


def test_a_backdoor_is_measured_on_triggered_test_images():
    test = evaluation(palette=PALETTE)
    goal = a.ModelReplacement(target=1, trigger=a.Square(size=2)).goal(test)
    assert (goal.images[:, :, :2, :2] == np.float32(2.8)).all()
    np.testing.assert_array_equal(goal.images[:, :, 2:], test.test.images[:, :, 2:])
    assert (goal.wanted == 1).all()
    np.testing.assert_array_equal(goal.labels, test.test.labels)


def test_a_goal_on_tensors_is_made_of_tensors():
    test = evaluation()
    goal = a.ModelPoisoning(images=5).goal(test._replace(test=a.Examples(*map(torch.from_numpy, test.test))))
    same = a.ModelPoisoning(images=5).goal(evaluation())
    assert isinstance(goal.wanted, torch.Tensor)
    np.testing.assert_array_equal(goal.wanted.numpy(), same.wanted)
    assert goal.success(goal.wanted) == (1.0, 1.0)


def test_a_target_that_is_no_class_is_refused():
    with pytest.raises(ConfigError, match="invalid target label 4"):
        a.ModelReplacement(target=4).goal(evaluation())


# Label flip


def test_labels_are_mirrored_or_one_is_turned_into_another():
    labels = np.arange(10)
    np.testing.assert_array_equal(a.LabelFlip().flipped(labels, 10), 9 - labels)
    np.testing.assert_array_equal(a.LabelFlip(source=2, target=7).flipped(labels, 10), [0, 1, 7, 3, 4, 5, 6, 7, 8, 9])


def test_a_flip_to_a_label_that_is_no_class_is_refused():
    with pytest.raises(ConfigError, match="target = 7, but the largest label is 3"):
        a.LabelFlip(source=2, target=7).flipped(np.arange(4), 4)


def test_flipped_labels_move_the_model_against_the_honest_way():
    at_work = clients(a.LabelFlip())
    honest = at_work.train(at_work.data)
    assert (np.einsum("ij,ij->i", a.LabelFlip().train(at_work), honest) < 0).all()


# MRA


def test_model_replacement_makes_the_mean_the_backdoored_model():
    seen = view(kind=np.float64)
    sent = a.ModelReplacement()(seen)
    np.testing.assert_allclose(sent, 4 * seen.own)  # 20 clients, 5 of them malicious
    np.testing.assert_allclose(sent.sum(0) / 20, seen.own.mean(0))


def test_boosts_by_a_number_by_the_shard_and_to_replace_shards():
    seen = view(kind=np.float64)  # 16 and 19 share a shard of four, 3 and 7 another, 1 is alone in one
    assert pytest.approx(7 * seen.own) == a.ModelReplacement(boost=7.0)(seen)
    shares = np.array([2, 2, 2, 4, 2])[:, None]
    assert pytest.approx(shares * seen.own) == a.ModelReplacement(boost="shard")(seen)


def test_a_shard_aware_backdoor_lands_the_shard_means_on_the_trained_update():
    seen = view(kind=np.float64)
    landed = shard_means(seen, a.ModelReplacement(boost="shard", shard_aware=True, knowledge="full")(seen))
    np.testing.assert_allclose(landed[1], seen.own[3])
    np.testing.assert_allclose(landed[3], seen.own[1:3].mean(0))
    replaced = shard_means(seen, a.ModelReplacement(shard_aware=True, knowledge="full")(seen))
    np.testing.assert_allclose(replaced[1], 5 / 3 * seen.own[3])  # 5 shards, 3 contaminated


def test_training_settings_left_out_are_those_of_the_honest():
    at_work = clients(a.ModelReplacement())
    a.ModelReplacement(lr=0.05, momentum=0.9).train(at_work)
    assert last(at_work)[1] == a.TrainingOverrides(lr=0.05, momentum=0.9)


def test_alpha_keeps_the_model_near_the_global_one():
    far, near = (
        np.linalg.norm(a.ModelReplacement(alpha=alpha).train(clients(a.ModelReplacement()))) for alpha in (1.0, 0.3)
    )
    assert near < 0.9 * far


def test_model_replacement_opens_a_backdoor_in_a_plain_mean():
    attack = a.ModelReplacement(target=1, epochs=20)
    at_work = clients(attack, palette=a.Palette())
    clean = at_work.model + at_work.train(at_work.data).mean(0)
    bad = at_work.model + attack.train(at_work).mean(0)
    goal = at_work.goal
    before, after = (goal.success(at_work.train.scores(w, goal.images).argmax(1)).others for w in (clean, bad))
    assert before < 0.2
    assert after > 0.8
    assert accuracy(at_work, bad, *evaluation().test) > 0.8


def test_the_released_mra_scales_nothing_and_paints_a_normalized_zero_on_all_images():
    attack = a.ModelReplacement(variant="released")
    at_work = clients(attack, palette=PALETTE)
    attack.train(at_work)
    for data in last(at_work)[0]:
        assert (data.images[:, :, :5, :5] == 0).all()
        assert (data.labels == 0).all()
    seen = view()
    np.testing.assert_array_equal(attack(seen), seen.own)
    assert (at_work.goal.wanted == 0).all()
    assert (at_work.goal.images[:, :, :5, :5] == 0).all()


# DBA


def test_each_kind_of_attacker_paints_its_own_bar_and_all_are_measured():
    attack = a.DBA(share=1.0)
    at_work = clients(attack)
    attack.train(at_work)
    bars = a.Bars().boxes(at_work.data[0].images)
    for rank, data in enumerate(last(at_work)[0]):
        np.testing.assert_array_equal(data.images, paint(at_work.data[rank].images, [bars[rank % 4]], 1.0))
    np.testing.assert_array_equal(at_work.goal.images, paint(evaluation().test.images, bars, 1.0))


def test_in_a_single_shot_each_kind_attacks_in_its_round_alone():
    attack = a.DBA(rounds=(3, 5), boost=10.0)
    seen = view(current=3)
    factors = np.array([10, 1, 1, 1, 10])[:, None]  # ranks 0 and 4 are of the first kind
    np.testing.assert_array_equal(attack(seen), (factors * seen.own).astype(np.float32))
    at_work = clients(attack, current=3)
    honest = at_work.train(at_work.data)
    own = attack.train(at_work)
    np.testing.assert_array_equal(own[1:4], honest[1:4])
    assert (np.abs(own - honest).max(axis=1)[[0, 4]] > 1e-3).all()
    np.testing.assert_array_equal(attack.train(replace(at_work, round=4)), honest)
    np.testing.assert_array_equal(attack(view(current=4)), view().own)


def test_the_released_dba_measures_the_last_bar_alone():
    attack = a.DBA(variant="released")
    at_work = clients(attack)
    bars = a.Bars().boxes(at_work.data[0].images)
    np.testing.assert_array_equal(at_work.goal.images, paint(evaluation().test.images, bars[3:], 1.0))
    attack.train(at_work)
    data, overrides, *_ = last(at_work)
    assert overrides.epochs == 20
    assert (data[0].images[:, 0, 0, :2] == 1).all(axis=1).sum() == 20  # half of 40


# Neurotoxin


def test_the_quietest_coordinates_are_those_of_the_smallest_magnitude():
    slopes = np.array([[3.0, -0.1, 0.2, -5.0], [0.0, 1.0, 2.0, -3.0]])
    want = [[False, True, True, False], [True, True, False, False]]
    np.testing.assert_array_equal(smallest(slopes, 0.5), want)
    np.testing.assert_array_equal(smallest(torch.from_numpy(slopes), 0.5).numpy(), want)
    assert smallest(slopes, 1.0).all()


def test_neurotoxin_moves_no_weight_that_clean_data_move_much():
    attack = a.Neurotoxin(ratio=0.5)
    at_work = clients(attack)
    own = attack.train(at_work)
    for rank, data in enumerate(at_work.data):
        slope = np.abs(at_work.train.gradient(at_work.model, *data))
        assert not own[rank][slope > np.median(slope) * 1.01].any()
        assert (own[rank][slope < np.median(slope) * 0.99] != 0).mean() > 0.9


def test_neurotoxin_stays_within_its_radius():
    lengths = [np.linalg.norm(a.Neurotoxin(radius=r).train(clients(a.Neurotoxin())), axis=1) for r in (None, 0.05)]
    assert (lengths[0] > 0.05).all()
    np.testing.assert_allclose(lengths[1], 0.05, rtol=1e-5)


# MPA


def test_model_poisoning_wants_wrong_labels_for_a_few_test_images():
    goal = a.ModelPoisoning(images=10).goal(evaluation())
    assert len(goal.images) == 10
    assert (goal.labels != goal.wanted).all()
    assert ((goal.wanted >= 0) & (goal.wanted < CLASSES)).all()


def test_more_images_than_the_test_set_has_are_refused():
    with pytest.raises(ConfigError, match="images = 61, but the test set has 60"):
        a.ModelPoisoning(images=61).goal(evaluation())


def test_model_poisoning_alternates_between_benign_steps_and_one_boosted_step():
    attack = a.ModelPoisoning(images=3, benign_steps=2, boost=5.0, rho=0.1)
    at_work = clients(attack)
    own = attack.train(at_work)
    calls = at_work.train.calls
    assert calls[0][0] == at_work.data  # the honest training that gives the center
    center = at_work.model + at_work.train(at_work.data)
    assert len(calls) - 1 == 1 + 2 * 2 * 2  # 2 epochs of 40 images in parts of 2 batches of 10, and as many lures
    for part, lure in zip(calls[1:-1:2], calls[2:-1:2], strict=True):
        assert [len(data.labels) for data in part[0]] == [20] * M
        np.testing.assert_allclose(part[3].center, center)
        assert part[3].strength == 0.1
        assert lure[3] is None
        np.testing.assert_array_equal(lure[0][0].labels, at_work.goal.wanted)
    start = calls[-2][2]
    step = at_work.train(calls[-2][0], overrides=calls[-2][1], start=start)
    np.testing.assert_allclose(own, start + 5 * step - at_work.model, atol=1e-6)


def test_model_poisoning_moves_a_plain_mean_towards_the_wrong_labels_and_spares_the_rest():
    attack = a.ModelPoisoning(images=3, epochs=10, benign_steps=1, lr=None, optimizer=None)
    at_work = clients(attack)
    sent = attack(replace(view(d=len(at_work.model)), own=attack.train(at_work)))
    honest = at_work.train(at_work.data).mean(0)
    clean, mean = at_work.model + honest, at_work.model + (15 * honest + sent.sum(0)) / 20
    goal, rows = at_work.goal, np.arange(3)

    def lead(weights):
        scores = at_work.train.scores(weights, goal.images)
        return (scores[rows, goal.wanted] - scores[rows, goal.labels]).mean()

    assert lead(mean) > lead(clean) + 0.2
    assert accuracy(at_work, mean, *evaluation().test) > 0.9


def test_explicit_boosting_multiplies_what_the_chosen_images_move_alone():
    attack = a.ModelPoisoning(images=3, strategy="explicit", boost="shard", lr=0.1, optimizer="sgd")
    at_work = clients(attack)
    own = attack.train(at_work)
    honest, lure = at_work.train.calls
    moved = at_work.train(at_work.data)
    lured = at_work.train(lure[0], overrides=a.TrainingOverrides(epochs=20, lr=0.1), start=at_work.model + moved)
    np.testing.assert_allclose(own, moved + np.array([2, 2, 2, 4, 2])[:, None] * lured, atol=1e-6)
    assert honest[0] == at_work.data
    seen = replace(view(d=len(at_work.model)), own=own)
    np.testing.assert_array_equal(attack(seen), own)  # the boost is in the training already


def test_adam_has_no_momentum_of_its_own():
    at_work = clients(a.ModelPoisoning(images=3))
    a.ModelPoisoning(images=3).train(at_work)
    assert last(at_work)[1] == a.TrainingOverrides(epochs=1, lr=1e-3, momentum=0.0, batch_size=3, optimizer="adam")


def test_model_poisoning_without_its_goal_is_refused():
    with pytest.raises(ConfigError, match="trains on the images of its goal"):
        a.ModelPoisoning(images=3).train(replace(clients(a.ModelPoisoning(images=3)), goal=None))


def test_the_released_mpa_transposes_images_and_takes_the_target_images_for_a_reference():
    ours, theirs = a.ModelPoisoning(images=3), a.ModelPoisoning(images=3, variant="released")
    at_work = clients(theirs)
    np.testing.assert_array_equal(at_work.goal.images, ours.goal(evaluation()).images.swapaxes(-1, -2))
    theirs.train(at_work)
    first, own, lure = at_work.train.calls
    assert len(first[0][0].labels) == 3
    assert len(own[0][0].labels) == 40
    away = at_work.train(first[0])
    np.testing.assert_allclose(own[3].center, at_work.model - away / 10)
    assert lure[1].epochs == 40 // 3 + 1
