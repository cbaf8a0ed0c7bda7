"""Every mode from end to end: exact sums, dropouts at every step, states that become bytes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from f2ed.core.errors import ConfigError
from f2ed.protocol.primitives.ring import WIDTHS
from f2ed.protocol.secagg import encapsulate, respond, secure_sum
from tests.protocol.secagg.shard_driver import MODEL, STEPS, Shard

MODES = ("all-or-nothing", "dropout-tolerant", "clear")


def shard_of(size, mode, **changes):
    return Shard(size, mode, member={"clear": mode == "clear"}, **changes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", [3, 4, 9])
def test_the_server_learns_exactly_the_sum(mode, width, size):
    shard = shard_of(size, mode, ring=width, bits=8)
    outcome = shard.run()
    assert outcome.reason is None
    assert outcome.survivors == shard.terms.members
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


def test_more_words_than_one_block_are_added_exactly():
    shard = Shard(3, length=150_000)
    outcome = shard.run()
    assert np.array_equal(outcome.total, sum(shard.vectors.values()))


def test_a_higher_threshold_opens_while_enough_are_alive():
    shard = Shard(5, threshold=4, min_crowd=4)
    outcome = shard.run(drop=lambda step, client: (step, client) == ("upload", 2))
    assert outcome.survivors == (1, 3, 4, 5)
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


@pytest.mark.parametrize("step", STEPS["dropout-tolerant"])
def test_a_client_may_drop_at_any_step(step):
    shard = Shard(5)
    outcome = shard.run(drop=lambda at, client: at == step and client == 2)
    gone = step in {"advertise", "share", "upload"}
    assert outcome.survivors == ((1, 3, 4, 5) if gone else (1, 2, 3, 4, 5))
    assert list(outcome.dropped) == [2]
    assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)


def test_drop_outs_at_every_combination_of_steps_either_open_exactly_or_say_why():
    """Two clients of five drop, each at any step or none: all 36 combinations."""
    whens = (*STEPS["dropout-tolerant"], None)
    for first, second in itertools.product(whens, repeat=2):
        shard = Shard(5)
        outcome = shard.run(drop=lambda step, client: {1: first, 4: second}.get(client) == step)  # noqa: B023
        assert outcome.reason is None
        assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)
        lost = {c for c, when in ((1, first), (4, second)) if when in {"advertise", "share", "upload"}}
        assert set(outcome.survivors) == set(shard.terms.members) - lost


@settings(max_examples=60, deadline=None)
@given(
    st.integers(3, 8),
    st.sampled_from(WIDTHS),
    st.dictionaries(st.integers(1, 8), st.sampled_from(STEPS["dropout-tolerant"])),
    st.integers(0, 2),
)
def test_any_drop_outs_open_exactly_or_close_with_a_reason(size, width, gone, colluders):
    colluders = min(colluders, size - 3)
    shard = Shard(size, ring=width, bits=8, colluders=colluders, length=3)
    outcome = shard.run(drop=lambda step, client: gone.get(client) == step)
    if outcome.reason is None:
        assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)
        assert len(outcome.survivors) >= shard.terms.min_crowd
    else:
        assert outcome.total is None
        assert "it takes" in outcome.reason


@pytest.mark.parametrize("step", STEPS["all-or-nothing"])
def test_a_missing_member_leaves_an_all_or_nothing_shard_closed(step):
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(drop=lambda at, client: at == step and client == 3)
    assert outcome.total is None
    assert "client 3" in outcome.reason
    assert "the sum stays closed" in outcome.reason


def test_in_the_clear_any_number_may_drop_but_not_all():
    shard = shard_of(3, "clear")
    outcome = shard.run(drop=lambda step, client: client != 2)  # noqa: ARG005
    assert shard.total_of(outcome) == shard.sum_of([2])
    assert shard_of(3, "clear").run(drop=lambda step, client: True).reason == "no member uploaded"  # noqa: ARG005


def test_keys_of_an_epoch_serve_its_later_rounds():
    shard = Shard(4, "all-or-nothing")
    first = shard.run()
    calls = shard.calls
    shard.next_round()
    second = shard.run()
    assert shard.calls == calls + 4
    assert shard.total_of(first) == shard.total_of(second) == shard.sum_of(shard.terms.members)


def test_a_shard_recovers_within_an_epoch_after_a_member_lost_its_state():
    shard = Shard(4, "all-or-nothing")
    shard.run()
    shard.states[2] = b""
    shard.next_round()
    assert "holds no keys of epoch 0" in shard.run().dropped[2]
    assert shard.keys is None
    shard.next_round()
    assert shard.total_of(shard.run()) == shard.sum_of(shard.terms.members)


def test_replies_may_arrive_all_at_once_in_any_order_and_twice():
    shard = Shard(4)
    server = secure_sum(shard.terms, shard.roster, model=MODEL)
    requests = next(server)
    for _ in range(4):
        replies = {client: shard.respond(client, asked) for client, asked in reversed(requests.items())}
        requests = server.send(replies | {99: b"not asked"})
    replies = {client: shard.respond(client, asked) for client, asked in requests.items()}
    with pytest.raises(StopIteration) as stop:
        server.send(replies)
    outcome = stop.value.value
    assert shard.total_of(outcome) == shard.sum_of(shard.terms.members)
    assert not outcome.dropped


def test_the_first_answer_of_a_client_stands():
    shard = Shard(3)
    server = secure_sum(shard.terms, shard.roster, model=MODEL)
    requests = next(server)
    first = shard.respond(1, requests[1])
    assert server.send({1: first}) == {}
    assert server.send({1: b"garbage"}) == {}
    assert server.send({2: shard.respond(2, requests[2])}) == {}
    assert set(server.send({3: shard.respond(3, requests[3])})) == {1, 2, 3}


def test_the_server_keeps_no_upload():
    """Uploads are added as they arrive: at most one beside the total is alive at a time."""
    import tracemalloc

    shard = Shard(6, "all-or-nothing", length=200_000)
    shard.run()
    shard.next_round()
    server = secure_sum(shard.terms, shard.roster, model=MODEL, keys=shard.keys)
    requests = next(server)
    size = 4 * shard.terms.length
    tracemalloc.start()
    try:
        for client in range(1, 6):
            server.send({client: shard.respond(client, requests[client])})
        with pytest.raises(StopIteration) as stop:
            server.send({6: shard.respond(6, requests[6])})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stop.value.value.reason is None
    # The client's copy, its packed message and the server's total, which was there before: never six uploads.
    assert peak < 3.5 * size


def test_public_weights_travel_in_the_terms():
    shard = Shard(3, weights=(1, 3, 2), weight_cap=5)
    assert shard.run().reason is None
    assert [shard.terms.weight(client) for client in (1, 2, 3)] == [1, 3, 2]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"job": "x" * 300}, "length <= 256"),
        ({"clip_value": float("nan")}, "float"),
        ({"ring": 8}, "ring"),
        ({"round": -1}, ">= 0"),
    ],
)
def test_terms_that_no_client_could_read_are_the_callers_mistake(changes, why):
    shard = Shard(3)
    server = secure_sum(replace(shard.terms, **changes), shard.roster, model=MODEL)
    with pytest.raises(ConfigError, match=f"no client can read.*{why}"):
        next(server)


def test_a_member_without_a_key_on_the_roster_is_the_callers_mistake():
    shard = Shard(3)
    del shard.roster[2]
    with pytest.raises(ConfigError, match="client 2 is not on the roster"):
        next(secure_sum(shard.terms, shard.roster, model=MODEL))


def test_a_model_that_is_not_a_digest_is_the_callers_mistake():
    shard = Shard(3)
    with pytest.raises(ConfigError, match="give SHA-256 of the global model"):
        next(secure_sum(shard.terms, shard.roster, model=b"the model itself"))


@pytest.mark.parametrize("entropy", [b"", bytes(31), bytes(33)])
def test_entropy_of_another_length_is_the_callers_mistake(entropy):
    shard = Shard(3)
    with pytest.raises(ConfigError, match="fresh ones"):
        respond(
            shard.members[1], b"", b"", model=MODEL, contribution=np.zeros, entropy=entropy, encapsulate=encapsulate
        )


def test_a_vector_that_does_not_fit_the_terms_is_the_callers_mistake():
    shard = Shard(3, "all-or-nothing")
    shard.vectors[2] = shard.vectors[2][:-1]
    with pytest.raises(ConfigError, match="this round adds 20 words"):
        shard.run()
