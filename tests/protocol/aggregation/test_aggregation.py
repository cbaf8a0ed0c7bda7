"""All shards in lockstep through one exchange, from updates to a robust mean."""

import hashlib
import tracemalloc
from threading import Event, Lock

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.randomness import stream
from f2ed.estimators import FilterL2
from f2ed.protocol.aggregation import (
    Audit,
    Protocol,
    Task,
    contribution,
    robust_secure_mean,
    shard_means,
    shard_terms,
)
from f2ed.protocol.dp import Noise, noise_cost
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg import Member, encapsulate, public_key, read_request, respond
from f2ed.protocol.sharding import assign_shards

MODEL = hashlib.sha256(b"model").digest()


def secret(*name):
    return hashlib.sha256(repr(name).encode()).digest()


class InMemory:
    """An exchange with every client in this process: one reply at a time, each made when it is asked for."""

    def __init__(self, clients, coordinates=50, *, clear=False, drop=lambda call, client: False, lazy=True):  # noqa: ARG005
        self.signing = {i: secret("identity", i) for i in range(clients)}
        self.roster = {i: public_key(key) for i, key in self.signing.items()}
        self.members = {
            i: Member(id=i, signing_key=key, roster=self.roster, job="job", clear=clear)
            for i, key in self.signing.items()
        }
        self.states = dict.fromkeys(self.members, b"")
        self.updates = {
            i: stream(0, "update", i).uniform(-0.5, 0.5, coordinates).astype(np.float32) for i in self.members
        }
        self.models = dict.fromkeys(self.members, MODEL)
        self.drop = drop
        self.lazy = lazy
        self.calls = 0

    def __call__(self, requests):
        self.calls += 1
        replies = ((i, self.reply(i, asked)) for i, asked in requests.items() if not self.drop(self.calls, i))
        return replies if self.lazy else dict(replies)

    def reply(self, client, request):
        answer = respond(
            self.members[client],
            self.states[client],
            request,
            model=self.models[client],
            contribution=lambda terms: self.encoded(client, terms),
            entropy=secret("entropy", client, self.calls),
            encapsulate=encapsulate,
            threads=1,
        )
        self.states[client] = answer.state
        return answer.reply

    def encoded(self, client, terms):
        return contribution(self.updates[client], client, key=secret("rounding", client))(terms)


def task_for(exchange, **changes):
    settings = {
        "job": "job",
        "round": 0,
        "model": MODEL,
        "coordinates": len(exchange.updates[0]),
        "encoding": Encoding(clip_value=1.0, clip_norm=100.0),
        "roster": exchange.roster,
    }
    return Task(**(settings | changes))


def assignment_for(exchange, shards):
    return assign_shards(exchange.roster, shards=shards, epoch=0, seed=b"public")


def plain_means(exchange, assignment, shards):
    return np.array([np.mean([exchange.updates[i] for i in assignment.shards[k]], axis=0) for k in shards])


def mean_of_means(means):
    return means.mean(axis=0)


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("lazy", [True, False])
def test_every_shard_gives_its_mean(mode, lazy):
    exchange = InMemory(14, lazy=lazy)
    assignment = assignment_for(exchange, 4)
    means, audit = shard_means(exchange, assignment, task_for(exchange, protocol=Protocol(mode=mode)))
    assert audit.opened == (0, 1, 2, 3)
    assert means == pytest.approx(plain_means(exchange, assignment, range(4)), abs=1e-5)
    assert exchange.calls == (4 if mode == "all-or-nothing" else 5)


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("packed", [False, True])
def test_masked_equals_plain_to_the_bit(mode, packed):
    encoding = Encoding(clip_value=0.3, clip_norm=1.5, packed=packed)
    secured, cleared = InMemory(12), InMemory(12, clear=True)
    assignment = assignment_for(secured, 3)
    masked = shard_means(secured, assignment, task_for(secured, encoding=encoding, protocol=Protocol(mode=mode)))
    plain = shard_means(cleared, assignment, task_for(cleared, encoding=encoding, secure=False))
    assert masked.means.tobytes() == plain.means.tobytes()
    assert [(s.clipped, s.shortened) for s in masked.audit.shards] == [
        (s.clipped, s.shortened) for s in plain.audit.shards
    ]
    assert masked.audit.shards[0].shortened == 4


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(0, 14)), st.integers(1, 3), st.integers(0, 2**16))
def test_masked_equals_plain_with_the_same_drop_outs(gone, step, seed):
    """Whoever misses its upload misses the plain sum too; shards that stay closed are closed for a reason."""
    rng = stream(seed, "updates")
    secured = InMemory(15, 8, drop=lambda call, i: call >= step and i in gone)
    cleared = InMemory(15, 8, clear=True, drop=lambda call, i: i in gone)  # noqa: ARG005
    for i in range(15):
        secured.updates[i] = cleared.updates[i] = rng.normal(0, 0.3, 8)
    assignment = assignment_for(secured, 3)
    masked = shard_means(secured, assignment, task_for(secured, protocol=Protocol(mode="dropout-tolerant")))
    plain = shard_means(cleared, assignment, task_for(cleared, secure=False))
    rows = dict(zip(plain.audit.opened, plain.means, strict=True))
    for k, row in zip(masked.audit.opened, masked.means, strict=True):
        assert row.tobytes() == rows[k].tobytes()
    for k in masked.audit.missing:
        assert len(set(assignment.shards[k]) - gone) < 3


def test_a_missing_shard_is_reported_with_its_reason_and_the_others_go_on():
    exchange = InMemory(12)
    assignment = assignment_for(exchange, 3)
    victim = assignment.shards[1][0]
    exchange.drop = lambda _, i: i == victim
    means, audit = shard_means(exchange, assignment, task_for(exchange))
    assert audit.opened == (0, 2)
    assert means == pytest.approx(plain_means(exchange, assignment, (0, 2)), abs=1e-5)
    assert f"client {victim}" in audit.missing[1]
    assert audit.shards[1].dropped == {victim: "key: no reply"}
    assert audit.shards[1].survivors == ()


@pytest.mark.parametrize("junk", [b"", b"\xc1", bytes(100), b"\x92\xa6upload\xc4\x00"])
def test_garbage_from_one_client_costs_its_shard_at_most(junk):
    exchange = InMemory(12)
    assignment = assignment_for(exchange, 3)
    liar = assignment.shards[0][1]
    honest = exchange.reply
    exchange.reply = lambda i, asked: junk if i == liar else honest(i, asked)
    _, audit = shard_means(exchange, assignment, task_for(exchange))
    assert audit.opened == (1, 2)
    assert set(audit.shards[0].dropped) == {liar}


def test_an_upload_of_random_words_is_caught_after_unmasking():
    exchange = InMemory(12)
    assignment = assignment_for(exchange, 3)
    liar = assignment.shards[2][1]
    honest = exchange.reply

    def reply(client, request):
        answer = honest(client, request)
        if client == liar and read_request(request).asks_update:
            words = stream(1, "garbage").integers(0, 256, 40, dtype=np.uint8)
            answer = answer[:-40] + words.tobytes()
        return answer

    exchange.reply = reply
    _, audit = shard_means(exchange, assignment, task_for(exchange))
    assert audit.opened == (0, 1)
    assert "reach at most" in audit.missing[2]


def test_a_client_with_another_model_closes_its_own_shard_alone():
    exchange = InMemory(12)
    assignment = assignment_for(exchange, 3)
    exchange.models[assignment.shards[0][0]] = hashlib.sha256(b"made for one victim").digest()
    _, audit = shard_means(exchange, assignment, task_for(exchange))
    assert audit.opened == (1, 2)
    assert "another context" in audit.shards[0].dropped[assignment.shards[0][0]]


def test_nobody_may_answer_for_another_step_or_another_client():
    exchange = InMemory(6)
    assignment = assignment_for(exchange, 2)
    call = exchange.__call__

    def noisy(requests):
        for client, reply in call(requests):
            yield client, reply
            yield client, b"once more"
            yield 999, b"a stranger"

    means, audit = shard_means(noisy, assignment, task_for(exchange))
    assert audit.opened == (0, 1)
    assert means == pytest.approx(plain_means(exchange, assignment, (0, 1)), abs=1e-5)


def test_keys_are_agreed_once_per_epoch():
    exchange, keys = InMemory(8), {}
    assignment = assignment_for(exchange, 2)
    for number, calls in ((0, 4), (1, 5), (2, 6)):
        _, audit = shard_means(exchange, assignment, task_for(exchange, round=number), keys=keys)
        assert audit.opened == (0, 1)
        assert exchange.calls == calls
    _, audit = shard_means(exchange, assignment, task_for(exchange, round=3, epoch=1), keys=keys)
    assert (exchange.calls, audit.opened) == (10, (0, 1))
    assert {epoch for epoch, _ in keys} == {1}


def test_after_a_failure_the_members_are_asked_for_their_keys_again():
    exchange, keys = InMemory(8), {}
    assignment = assignment_for(exchange, 2)
    shard_means(exchange, assignment, task_for(exchange), keys=keys)
    lost = assignment.shards[0][2]
    exchange.states[lost] = b""
    _, audit = shard_means(exchange, assignment, task_for(exchange, round=1), keys=keys)
    assert "holds no keys" in audit.shards[0].dropped[lost]
    _, audit = shard_means(exchange, assignment, task_for(exchange, round=2), keys=keys)
    assert audit.opened == (0, 1)


def test_the_same_round_twice_opens_nothing():
    exchange = InMemory(8)
    assignment = assignment_for(exchange, 2)
    shard_means(exchange, assignment, task_for(exchange))
    with pytest.raises(PeerError, match=r"none of 2 shards opened; shard 0: .* gave no usable key"):
        robust_secure_mean(exchange, assignment, mean_of_means, task_for(exchange))


def test_any_estimator_runs_over_the_shard_means():
    exchange = InMemory(15)
    assignment = assignment_for(exchange, 5)
    exchange.updates[assignment.shards[3][0]] = np.full(50, 40.0, np.float32)
    median, audit = robust_secure_mean(
        exchange,
        assignment,
        lambda means: np.median(means, axis=0),
        task_for(exchange, encoding=Encoding(clip_value=50.0)),
    )
    assert np.abs(median).max() < 0.5
    assert audit.opened == (0, 1, 2, 3, 4)


def test_the_estimators_weights_belong_to_the_shards_that_opened():
    """One shard stays closed and another is poisoned: the filter's verdict is about the rows that `opened` names."""
    exchange = InMemory(72, 8)
    assignment = assignment_for(exchange, 24)
    closed, poisoned = 3, 7
    exchange.updates[assignment.shards[poisoned][0]] = np.full(8, 40.0, np.float32)
    exchange.drop = lambda _, i: i == assignment.shards[closed][1]
    estimate, audit = robust_secure_mean(
        exchange, assignment, FilterL2(contamination=0.05), task_for(exchange, encoding=Encoding(clip_value=50.0))
    )
    assert audit.opened == tuple(k for k in range(24) if k != closed)
    assert estimate.weights[audit.opened.index(poisoned)] == estimate.weights.min() < estimate.weights.max()
    assert np.abs(estimate.mean).max() < 1.0


def test_public_weights_weigh_the_mean_of_the_survivors():
    exchange = InMemory(8)
    assignment = assignment_for(exchange, 2)
    weights = {i: 1 + i % 4 for i in range(8)}
    means, _ = shard_means(exchange, assignment, task_for(exchange, weights=weights, weight_cap=4))
    for row, members in zip(means, assignment.shards, strict=True):
        wanted = np.average([exchange.updates[i] for i in members], axis=0, weights=[weights[i] for i in members])
        assert row == pytest.approx(wanted, abs=1e-5)


def test_a_weight_above_the_cap_is_refused_before_anybody_is_asked():
    exchange = InMemory(8)
    task = task_for(exchange, weights=dict.fromkeys(range(8), 3), weight_cap=2)
    with pytest.raises(ConfigError, match="a weight of 3 above the cap of 2"):
        shard_means(exchange, assignment_for(exchange, 2), task)
    assert exchange.calls == 0


def test_a_shard_too_small_to_hide_in_is_refused_before_anybody_is_asked():
    exchange = InMemory(8)
    with pytest.raises(ConfigError, match="sums of 2 may be opened among 2 members"):
        shard_means(exchange, assignment_for(exchange, 4), task_for(exchange))
    assert exchange.calls == 0


def test_clients_refuse_to_upload_in_the_clear_unless_they_agreed():
    exchange = InMemory(8)
    _, audit = shard_means(exchange, assignment_for(exchange, 2), task_for(exchange, secure=False))
    assert audit.opened == ()
    assert all("in the clear" in reason for shard in audit.shards for reason in shard.dropped.values())


@pytest.mark.parametrize(("size", "mode"), [(10, "all-or-nothing"), (11, "dropout-tolerant")])
def test_the_mode_follows_the_size_of_the_shard(size, mode):
    exchange = InMemory(size)
    (terms,) = shard_terms(assignment_for(exchange, 1), task_for(exchange))
    assert terms.mode == mode


def test_settings_of_the_protocol_reach_the_terms():
    exchange = InMemory(12)
    protocol = Protocol(mode="dropout-tolerant", colluders=2, threshold=9, min_crowd=10)
    (terms,) = shard_terms(assignment_for(exchange, 1), task_for(exchange, protocol=protocol))
    assert (terms.threshold, terms.min_crowd, terms.colluders) == (9, 10, 2)
    raised = shard_terms(
        assignment_for(exchange, 1), task_for(exchange, protocol=Protocol(mode="dropout-tolerant", threshold=9))
    )
    assert raised[0].min_crowd == 9


def test_min_crowd_is_a_minimum_in_shards_of_different_sizes():
    """A shard of 12 needs a majority of 7, whatever a smaller minimum says; shards of 11 keep theirs."""
    exchange = InMemory(23)
    protocol = Protocol(mode="dropout-tolerant", min_crowd=6)
    crowds = {
        len(each.members): each.min_crowd
        for each in shard_terms(assignment_for(exchange, 2), task_for(exchange, protocol=protocol))
    }
    assert crowds == {11: 6, 12: 7}
    _, audit = shard_means(exchange, assignment_for(exchange, 2), task_for(exchange, protocol=protocol))
    assert audit.opened == (0, 1)


def test_the_audit_counts_bytes_and_becomes_a_line():
    exchange = InMemory(8, 1000)
    assignment = assignment_for(exchange, 2)
    _, audit = shard_means(exchange, assignment, task_for(exchange))
    for shard in audit.shards:
        assert 4 * 4000 < shard.bytes_up < 4 * 4000 + 4 * 3500
        assert 0 < shard.bytes_down < 4 * 8000
    assert audit.crowd == 4
    assert audit.summary() == (
        "round 0: 2 of 2 shards opened, 0 dropped; every opened update hidden in a crowd of at least 4"
    )
    assert msgspec.json.decode(msgspec.json.encode(audit), type=Audit) == audit


def test_an_audit_in_the_clear_says_so():
    exchange = InMemory(8, clear=True)
    _, audit = shard_means(exchange, assignment_for(exchange, 4), task_for(exchange, secure=False))
    assert audit.crowd == 1
    assert "the server saw every update" in audit.summary()


def test_an_independent_shard_waits_for_no_other():
    """Shard 0 hears nothing before all others are done; in lockstep it would hold them up at every step."""
    exchange = InMemory(12)
    assignment = assignment_for(exchange, 3)
    lock, others_done, open_calls = Lock(), Event(), {1, 2}

    def slow(requests):
        shard = assignment.shard_of(next(iter(requests)))
        if shard == 0:
            assert others_done.wait(timeout=60)
        with lock:
            replies = dict(exchange(requests))
        if shard and min(map(len, replies.values())) > 150:  # the uploads, which are the last step
            open_calls.discard(shard)
            if not open_calls:
                others_done.set()
        return replies

    means, audit = shard_means(slow, assignment, task_for(exchange), independent=True)
    assert audit.opened == (0, 1, 2)
    assert means == pytest.approx(plain_means(exchange, assignment, range(3)), abs=1e-5)


def test_memory_grows_with_the_shards_and_not_with_the_clients():
    """With 60 clients in 3 shards the uploads of 60 would take 20 totals and means; at most one is held at a time."""
    coordinates = 100_000
    exchange = InMemory(60, 1, clear=True)
    update = np.zeros(coordinates, np.float32)
    exchange.updates = dict.fromkeys(range(60), update)
    assignment, task = assignment_for(exchange, 3), task_for(exchange, secure=False, coordinates=coordinates)
    tracemalloc.start()
    try:
        _, audit = shard_means(exchange, assignment, task)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert audit.opened == (0, 1, 2)
    totals_and_means, one_upload = 2 * 3 * 4 * coordinates, 4 * coordinates
    assert peak < totals_and_means + 6 * one_upload


NOISY = Encoding(clip_value=1.0, clip_norm=2.0, bits=16)


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("colluders", [0, 1])
def test_with_noise_masked_equals_plain_to_the_bit(mode, colluders):
    protocol = Protocol(mode=mode, colluders=colluders)
    secured, cleared = InMemory(15), InMemory(15, clear=True)
    assignment = assignment_for(secured, 3)
    changes = {"encoding": NOISY, "noise": 1.5, "protocol": protocol}
    masked = shard_means(secured, assignment, task_for(secured, **changes))
    plain = shard_means(cleared, assignment, task_for(cleared, secure=False, **changes))
    assert len(masked.means) == 3
    assert masked.means.tobytes() == plain.means.tobytes()


@pytest.mark.parametrize(("mode", "carriers"), [("all-or-nothing", 5), ("dropout-tolerant", 3)])
def test_noise_is_shared_by_the_smallest_sum_that_may_be_opened(mode, carriers):
    exchange = InMemory(15)
    task = task_for(exchange, encoding=NOISY, noise=1.5, protocol=Protocol(mode=mode))
    for terms in shard_terms(assignment_for(exchange, 3), task):
        assert (terms.noise, terms.carriers) == (1.5, carriers)


@pytest.mark.parametrize(("gone", "honest"), [((), 5), ((0,), 4), ((0, 1), 3)])
def test_dropouts_leave_no_less_noise_than_was_stated(gone, honest):
    exchange = InMemory(5, 40_000, drop=lambda call, i: call >= 3 and i in gone)
    exchange.updates = dict.fromkeys(exchange.updates, np.zeros(40_000, np.float32))
    task = task_for(exchange, encoding=NOISY, noise=1.5, protocol=Protocol(mode="dropout-tolerant"))
    means, audit = shard_means(exchange, assignment_for(exchange, 1), task)
    stated = 1.5 * NOISY.sensitivity(40_000) * NOISY.unit
    assert means[0].std() * honest == pytest.approx(stated * (honest / 3) ** 0.5, rel=0.015)
    assert audit.shards[0].privacy_cost == pytest.approx(1 / (2 * 1.5**2) * 3 / honest, rel=1e-6)


def test_noise_of_colluders_does_not_count():
    exchange = InMemory(5)
    protocol = Protocol(mode="all-or-nothing", colluders=2)
    _, audit = shard_means(
        exchange, assignment_for(exchange, 1), task_for(exchange, encoding=NOISY, noise=1.0, protocol=protocol)
    )
    assert audit.shards[0].privacy_cost == pytest.approx(0.5)


def test_a_closed_shard_costs_nobody_anything():
    exchange = InMemory(8, drop=lambda call, i: i == 0)  # noqa: ARG005
    assignment = assignment_for(exchange, 2)
    _, audit = shard_means(exchange, assignment, task_for(exchange, encoding=NOISY, noise=1.0))
    closed = assignment.shard_of(0)
    assert audit.shards[closed].privacy_cost == 0
    assert audit.shards[1 - closed].privacy_cost == pytest.approx(0.5)


def test_in_the_clear_an_update_has_its_own_noise_alone():
    exchange = InMemory(4, clear=True)
    _, audit = shard_means(
        exchange, assignment_for(exchange, 1), task_for(exchange, encoding=NOISY, noise=1.0, secure=False)
    )
    assert audit.shards[0].privacy_cost == pytest.approx(4 * 0.5)


def test_a_sum_that_was_opened_and_rejected_still_costs():
    """The server has seen it."""
    exchange = InMemory(4)
    honest = exchange.encoded
    exchange.encoded = lambda client, terms: honest(client, terms) + np.uint32((client == 1) * 2**30)
    _, audit = shard_means(exchange, assignment_for(exchange, 1), task_for(exchange, encoding=NOISY, noise=1.0))
    assert "reach at most" in audit.missing[0]
    assert audit.shards[0].privacy_cost == pytest.approx(0.5)


def test_noise_that_a_sum_cannot_hold_is_refused():
    narrow = Encoding(clip_value=1.0, clip_norm=2.0, bits=12, ring=16)
    fits, too_much = Noise(noise_multiplier=0.1), Noise(noise_multiplier=10.0)
    assert noise_cost(fits, narrow, coordinates=1000, members=5, carriers=5, shards=4, rounds=1).dp_epsilon > 0
    with pytest.raises(ConfigError, match="overflow a 16-bit sum"):
        noise_cost(too_much, narrow, coordinates=1000, members=5, carriers=5, shards=4, rounds=1)
