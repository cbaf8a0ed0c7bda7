"""Backdoors without a trigger, in two stages, or as far as the estimator in use follows."""

from dataclasses import replace

import numpy as np
import pytest

from f2ed import attacks as a
from f2ed.core.errors import ConfigError, SettingError
from f2ed.estimators import Clipping, FilterL2, Mean
from tests.attacks.attack_scenes import CLASSES, clients, contaminated, evaluation, shard_means, view

D = 64


def deviation(seen, sent):
    """What the first contaminated shard mean adds to the mean of the clean ones."""
    rows, bad = shard_means(seen, sent), contaminated(seen)
    clean = [at for at in range(len(rows)) if at not in bad]
    return rows[bad[0]] - rows[clean].mean(0), rows[clean] - rows[clean].mean(0)


def test_all_contaminated_shards_send_the_same_row():
    seen = view(kind=np.float64)
    rows = shard_means(seen, a.AdaptiveBackdoor()(seen))[contaminated(seen)]
    np.testing.assert_allclose(rows, np.broadcast_to(rows[0], rows.shape), atol=1e-12)


def test_it_goes_as_far_as_the_estimator_follows():
    far = [np.linalg.norm(deviation(seen, a.AdaptiveBackdoor()(seen))[0]) for seen in _against(Mean(), FilterL2(0.4))]
    assert far[0] > 5 * far[1]  # a mean follows anywhere, and the grid ends at 20 times the honest distance


def _against(*estimators):
    return [view(kind=np.float64, estimator=each, malicious=(16, 3)) for each in estimators]


def test_boost_multiplies_the_distance():
    one, two = (deviation(seen, a.AdaptiveBackdoor(boost=b)(seen))[0] for b in (1.0, 2.0) for seen in [view()])
    np.testing.assert_allclose(two, 2 * one, rtol=1e-3, atol=1e-4)


def test_a_blind_row_differs_only_where_honest_rows_differ():
    seen = view(kind=np.float64, malicious=(16, 3))
    for blind, explained in ((0.0, False), (1.0, True)):
        away, honest = deviation(seen, a.AdaptiveBackdoor(blind=blind)(seen))
        left = away - np.linalg.lstsq(honest.T, away, rcond=None)[0] @ honest
        assert (np.linalg.norm(left) < 1e-6 * np.linalg.norm(away)) == explained


def test_with_partial_knowledge_it_sends_the_mean_of_its_own():
    seen = view(full=False, kind=np.float64)
    sent = a.AdaptiveBackdoor(knowledge="partial", shard_aware=False)(seen)
    np.testing.assert_allclose(sent, np.broadcast_to(seen.own.mean(0), sent.shape))


def test_chameleon_trains_the_features_first_and_then_the_last_layer():
    attack = a.Chameleon(target=1, facilitators=3)
    at_work = replace(clients(attack), tensors=(200, 40, 12, CLASSES))
    attack.train(at_work)
    first, second = at_work.train.calls
    assert not first[4][:, 240:].any()
    assert first[4][:, :240].all()
    np.testing.assert_array_equal(second[4], ~first[4])
    np.testing.assert_array_equal(second[2].shape, first[4].shape)  # it goes on where the first stage ended
    before, after = (np.mean(call[0][0].labels == 1) for call in (second, first))
    assert after > 1.5 * before
    assert len(first[0][0].labels) == len(second[0][0].labels)


def test_chameleon_has_one_stage_for_a_model_of_one_layer():
    attack = a.Chameleon()
    at_work = clients(attack)
    attack.train(at_work)
    assert len(at_work.train.calls) == 1


@pytest.mark.parametrize("attack", [a.EdgeCase(source=3, target=0, tail=0.5), a.Semantic(source=3, target=0, tail=0.5)])
def test_the_attacker_has_half_of_the_group_and_is_measured_on_the_other(attack):
    given = evaluation().test
    goal = attack.goal(evaluation())
    mine = given.images[given.labels == 3]
    assert set(goal.labels) == {3}
    assert set(goal.wanted) == set(goal.lesson.labels) == {0}
    assert len(goal.images) + len(goal.lesson.images) == round(0.5 * len(mine))
    assert not {image.tobytes() for image in goal.images} & {image.tobytes() for image in goal.lesson.images}
    assert {image.tobytes() for image in goal.images} < {image.tobytes() for image in mine}


def test_the_groups_are_the_tail_the_bright_and_the_dark():
    given = evaluation().test
    mine = given.images[given.labels == 3]
    flat = mine.reshape(len(mine), -1).astype(np.float64)
    for attack, score in (
        (a.EdgeCase(source=3), np.linalg.norm(flat - flat.mean(0), axis=1)),
        (a.Semantic(source=3), flat.mean(1)),
        (a.Semantic(source=3, feature="dark"), -flat.mean(1)),
    ):
        goal = attack.goal(evaluation())
        np.testing.assert_array_equal(goal.lesson.images[0], mine[score.argmax()])


def test_a_share_of_each_clients_images_is_replaced_by_images_of_the_group():
    attack = a.EdgeCase(source=3, share=0.25)
    at_work = clients(attack)
    known = {image.tobytes() for image in at_work.goal.lesson.images}
    for before, data in zip(at_work.data, attack.poison(at_work), strict=True):
        new = [at for at, image in enumerate(data.images) if image.tobytes() in known]
        assert (
            len(new) == round(0.25 * len(data.labels)) == np.sum(np.any(data.images != before.images, axis=(1, 2, 3)))
        )
        assert set(data.labels[new]) == {1}


def test_a_group_without_images_is_refused_in_training():
    attack = a.EdgeCase(source=3)
    at_work = clients(attack)
    none = replace(at_work.goal, lesson=a.Examples(at_work.goal.images[:0], at_work.goal.wanted[:0]))
    with pytest.raises(ConfigError, match="no test images of class 3"):
        attack.train(replace(at_work, goal=none))


@pytest.mark.parametrize("settings", [{"source": 9}, {"source": 1, "target": 9}])
def test_a_class_that_the_data_do_not_have_is_refused(settings):
    with pytest.raises(ConfigError, match=r"invalid (source|target) label 9: the data has 4 classes"):
        a.Semantic(**settings).goal(evaluation())


def test_source_and_target_differ():
    with pytest.raises(SettingError, match="both 2; state two classes"):
        a.EdgeCase(source=2, target=2)


def test_a_blended_trigger_lets_the_image_show_through():
    given = evaluation().test.images
    whole, half = (a.Neurotoxin(blend=blend).triggered(given, a.Palette()) for blend in (None, 0.5))
    changed = np.any(whole != given, axis=(0, 1))
    np.testing.assert_allclose(half[..., changed], (whole[..., changed] + given[..., changed]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(half[..., ~changed], given[..., ~changed])


def test_labels_are_flipped_in_a_share_of_the_images_and_the_update_is_boosted():
    attack = a.LabelFlip(share=0.25, lr=0.05, epochs=3, boost=4.0)
    at_work = clients(attack)
    attack.train(at_work)
    data, overrides, *_ = at_work.train.calls[0]
    for before, after in zip(at_work.data, data, strict=True):
        assert 0 < np.sum(before.labels != after.labels) <= round(0.25 * len(before.labels))
    assert (overrides.lr, overrides.epochs) == (0.05, 3)
    seen = view()
    np.testing.assert_allclose(attack(seen), 4 * seen.own, rtol=1e-6)


def test_a_disguise_gives_each_row_a_deviation_of_its_own():
    seen = view(kind=np.float64, malicious=(16, 3))
    rows = shard_means(seen, a.AdaptiveBackdoor(disguise=1.0)(seen))
    clean = [at for at in range(len(rows)) if at not in contaminated(seen)]
    apart = np.linalg.norm(rows[contaminated(seen)] - rows[contaminated(seen)].mean(0), axis=1)
    honest = np.linalg.norm(rows[clean] - rows[clean].mean(0), axis=1)
    assert 0.3 * np.median(honest) < np.median(apart) < 3 * np.median(honest)
    left = rows[contaminated(seen)][0] - rows[contaminated(seen)][1]
    away = rows[clean] - rows[clean].mean(0)
    explained = np.linalg.lstsq(away.T, left, rcond=None)[0] @ away
    np.testing.assert_allclose(explained, left, atol=1e-8)


@pytest.mark.parametrize("disguise", [0.0, 1.0])
def test_the_distance_from_inner_products_is_that_from_rows(disguise):
    """A rule on the Gram matrix is queried without rows; a wrapper that changes nothing is queried with them."""
    direct, wrapped = (
        a.AdaptiveBackdoor(disguise=disguise)(seen) for seen in _against(FilterL2(0.4), Clipping(1e9, FilterL2(0.4)))
    )
    np.testing.assert_allclose(direct, wrapped, rtol=1e-5, atol=1e-7)


def test_a_quiet_row_is_an_honest_one_and_a_step_that_all_share():
    attack = a.QuietBackdoor(target=1, reach=0.3)
    at_work = clients(attack)
    honest = at_work.train(at_work.data)
    sent = attack.train(at_work)
    steps = sent - honest
    np.testing.assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), atol=1e-6)
    away = honest - honest.mean(0)
    spread = np.sqrt((away**2).sum(1).mean() * len(honest) / (len(honest) - 1))
    assert np.linalg.norm(steps[0]) == pytest.approx(0.3 * spread, rel=1e-4)


def test_a_single_quiet_client_measures_its_step_by_its_own_update():
    attack = a.QuietBackdoor(target=1, reach=0.3)
    at_work = clients(attack)
    alone = replace(at_work, data=at_work.data[:1], malicious=at_work.malicious[:1])
    honest = alone.train(alone.data)
    steps = attack.train(alone) - honest
    assert np.linalg.norm(steps) == pytest.approx(0.3 * np.linalg.norm(honest), rel=1e-4)
