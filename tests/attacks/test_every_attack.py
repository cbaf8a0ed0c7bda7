"""What holds for every attack."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch

import f2ed.attacks._common.scene
import f2ed.attacks.base
from f2ed import attacks as a
from f2ed.core.errors import ConfigError
from tests.attacks.attack_examples import ALL, EXAMPLES, EXTRA, MEMBERS, name
from tests.attacks.attack_scenes import ALONE, D, M, clients, contaminated, evaluation, shard_means, view

EVERY = pytest.mark.parametrize("attack", ALL + EXTRA, ids=name)
KNOWLEDGE = pytest.mark.parametrize("knowledge", ["full", "partial"])
AWARE = pytest.mark.parametrize("aware", [False, True], ids=["clients", "shards"])


def setting(attack, knowledge="full", *, aware=False):
    if isinstance(attack, a.DBA) and attack.rounds and aware:
        pytest.skip("turns of single clients")
    return msgspec.structs.replace(attack, knowledge=knowledge, shard_aware=aware)


def test_every_attack_has_an_example():
    assert set(MEMBERS) == set(EXAMPLES)


@EVERY
def test_settings_survive_json(attack):
    assert msgspec.json.decode(msgspec.json.encode(attack), type=a.AnyAttack) == attack


@EVERY
def test_every_attack_says_in_a_sentence_what_it_does(attack):
    assert type(attack).__doc__.split("\n")[0].endswith(".")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"kind":"alie","zz":1}', "zz"),
        ('{"kind":"alie","z":-1}', r"\$\.z"),
        ('{"kind":"trimmed-mean-attack","b":0.5}', r"\$\.b"),
        ('{"kind":"krum-attack","knowledge":"some"}', r"\$\.knowledge"),
        ('{"kind":"model-replacement","share":1.5}', r"\$\.share"),
        ('{"kind":"model-replacement","boost":"client"}', r"\$\.boost"),
        ('{"kind":"model-replacement","trigger":{"sise":2}}', r"sise.*\$\.trigger"),
        ('{"kind":"mimic","client":2,"shard_aware":true}', "fixed client needs"),
        ('{"kind":"label-flip","source":2}', "both source and target"),
        ('{"kind":"dba","rounds":[1],"shard_aware":true}', "shard_aware = false"),
        ('{"kind":"hidra","slack":1.0}', r"\$\.slack"),
        ('{"kind":"krum"}', r"krum.*\$\.kind"),
    ],
)
def test_a_bad_setting_is_refused_with_what_is_wrong(text, says):
    with pytest.raises(msgspec.ValidationError, match=says):
        msgspec.json.decode(text, type=a.AnyAttack)


@EVERY
@KNOWLEDGE
@AWARE
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_one_finite_row_of_the_same_type_for_each_malicious_client(attack, knowledge, aware, kind):
    sent = setting(attack, knowledge, aware=aware)(view(full=knowledge == "full", kind=kind))
    assert isinstance(sent, np.ndarray)
    assert sent.shape == (M, D)
    assert sent.dtype == kind
    assert np.isfinite(sent).all()


@EVERY
@KNOWLEDGE
@AWARE
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_when_the_model_has_diverged_they_send_what_they_trained(attack, knowledge, aware, value):
    seen = view(full=knowledge == "full")
    diverged = (seen.own if seen.benign is None else seen.benign).copy()
    diverged[0, 1:3] = value
    seen = replace(seen, own=diverged) if seen.benign is None else replace(seen, benign=diverged)
    np.testing.assert_array_equal(setting(attack, knowledge, aware=aware)(seen), seen.own)


@EVERY
@AWARE
def test_the_same_view_and_seed_give_the_same_rows(attack, aware):
    attack = setting(attack, aware=aware)
    np.testing.assert_array_equal(attack(view()), attack(view()))


@EVERY
@AWARE
def test_nothing_given_in_is_changed_or_given_out(attack, aware):
    seen, kept = view(), view()
    sent = setting(attack, aware=aware)(seen)
    sent += 1e6
    for part in ("own", "benign", "model"):
        np.testing.assert_array_equal(getattr(seen, part), getattr(kept, part))


@EVERY
@AWARE
def test_rows_share_no_memory_with_one_another(attack, aware):
    sent = setting(attack, aware=aware)(view())
    before = sent.copy()
    sent[0] = 0
    np.testing.assert_array_equal(sent[1:], before[1:])


@EVERY
@AWARE
def test_partial_knowledge_makes_no_use_of_benign_updates(attack, aware):
    attack = setting(attack, "partial", aware=aware)
    np.testing.assert_array_equal(attack(view()), attack(view(full=False)))


@EVERY
def test_full_knowledge_without_benign_updates_is_refused(attack):
    with pytest.raises(ConfigError, match="no benign updates"):
        setting(attack, "full")(view(full=False))


@EVERY
@AWARE
def test_tensors_are_answered_with_tensors(attack, aware):
    attack, seen = setting(attack, aware=aware), view()
    given = replace(seen, **{part: torch.from_numpy(getattr(seen, part)) for part in ("own", "benign", "model")})
    sent = attack(given)
    assert isinstance(sent, torch.Tensor)
    assert sent.dtype == torch.float32
    np.testing.assert_array_equal(sent.numpy(), attack(view()))


@EVERY
@KNOWLEDGE
@AWARE
def test_tensors_that_stay_where_they_are_give_the_same(attack, knowledge, aware, monkeypatch):
    """As on a GPU: the attack itself works on tensors."""
    attack, seen = setting(attack, knowledge, aware=aware), view(kind=np.float64)
    want = attack(view(kind=np.float64))
    for module in (f2ed.attacks.base, f2ed.attacks._common.scene):
        monkeypatch.setattr(module, "as_matrix", lambda rows: (rows, lambda out: out))
    given = replace(seen, **{part: torch.from_numpy(getattr(seen, part)) for part in ("own", "benign", "model")})
    np.testing.assert_allclose(attack(given).numpy(), want, rtol=1e-6, atol=1e-9)


@EVERY
@KNOWLEDGE
def test_without_sharding_it_makes_no_difference_to_know_the_shards(attack, knowledge):
    """Each client is its own shard, so shard means are clients; their order differs, so random draws may, too."""
    if isinstance(attack, a.Gaussian | a.TrimmedMeanAttack) or attack == a.DBA(rounds=(3, 5), boost=10.0):
        pytest.skip("draws each row at random" if not isinstance(attack, a.DBA) else "turns of single clients")
    malicious = (1, 3, 7, 16, 19)
    seen = [view(shards=ALONE, malicious=malicious) for _ in range(2)]
    sent = [setting(attack, knowledge, aware=aware)(one) for aware, one in zip((False, True), seen, strict=True)]
    np.testing.assert_allclose(sent[1], sent[0], rtol=2e-4, atol=2e-4)


@EVERY
@AWARE
def test_a_single_malicious_client_works_alone(attack, aware):
    assert np.isfinite(setting(attack, "partial", aware=aware)(view(malicious=(2,)))).all()


@EVERY
@KNOWLEDGE
def test_shards_of_which_none_is_clean_can_be_attacked(attack, knowledge):
    sent = setting(attack, knowledge, aware=True)(view(malicious=(0, 1, 2, 3, 16)))
    assert np.isfinite(sent).all()


@EVERY
def test_a_shard_aware_attack_moves_the_contaminated_shards_alone(attack):
    seen = view()
    before, after = shard_means(seen, seen.own), shard_means(seen, setting(attack, aware=True)(seen))
    clean = [index for index in range(len(seen.shards)) if index not in contaminated(seen)]
    np.testing.assert_array_equal(after[clean], before[clean])
    if not (isinstance(attack, a.KrumAttack) and attack.variant == "original"):  # it may give up
        assert (np.abs(after - before).max(axis=1)[contaminated(seen)] > 1e-6).all()


@EVERY
def test_training_gives_one_update_for_each_malicious_client(attack):
    at_work = clients(attack)
    before = [(data.images.copy(), data.labels.copy()) for data in at_work.data]
    own = attack.train(at_work)
    assert own.shape == (M, len(at_work.model))
    assert np.isfinite(own).all()
    for data, (images, labels) in zip(at_work.data, before, strict=True):
        np.testing.assert_array_equal(data.images, images)
        np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(attack.train(clients(attack)), own)


@EVERY
def test_who_trains_honestly_says_so(attack):
    at_work = clients(attack)
    honest = at_work.train(at_work.data)
    assert attack.trains_honestly == np.array_equal(attack.train(at_work), honest)


@EVERY
def test_a_goal_shows_images_and_wants_labels(attack):
    goal = attack.goal(evaluation())
    if goal is None:
        assert not isinstance(attack, a.ModelReplacement | a.DBA | a.ModelPoisoning | a.Neurotoxin)
        return
    assert goal.images.shape[1:] == evaluation().test.images.shape[1:]
    assert len(goal.images) == len(goal.wanted) == len(goal.labels)
    assert goal.success(goal.wanted) == (1.0, 1.0)
