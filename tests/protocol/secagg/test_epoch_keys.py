"""All-or-nothing: lies about the keys of an epoch, from either side."""

import pytest
from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import public_exchange_key
from f2ed.protocol.secagg.messages import AskKey, SignedKey, read_reply, write
from tests.protocol.secagg.adversary import LOW_ORDER, VICTIM, assert_refused, cheat, epoch_signed, lie
from tests.protocol.secagg.shard_driver import Shard, make_terms, secret


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda k: replace(k, signature=bytes(64)), "does not verify"),
        (lambda k: replace(k, client=3), "in the name of client 3"),
    ],
)
def test_the_server_closes_an_all_or_nothing_shard_over_a_bad_key(change, why):
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(reply=cheat("key", SignedKey, change))
    assert why in outcome.dropped[VICTIM]
    assert "gave no usable key (client 2)" in outcome.reason


def test_the_server_closes_an_all_or_nothing_shard_over_a_key_of_small_order():
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(reply=cheat("key", SignedKey, lambda _: epoch_signed(shard, VICTIM, LOW_ORDER)))
    assert outcome.total is None
    assert "small order" in outcome.dropped[VICTIM]
    assert shard.refusals == {}


def test_the_server_closes_an_all_or_nothing_shard_over_a_copied_key():
    shard, seen = Shard(4, "all-or-nothing"), {}

    def copy(step, client, data):
        if step == "key":
            seen[client] = read_reply(SignedKey, data)
        return write(epoch_signed(shard, 2, seen[1].key)) if (step, client) == ("key", VICTIM) else data

    outcome = shard.run(reply=copy)
    assert "the same key as another member" in outcome.dropped[VICTIM]
    assert outcome.total is None


def forge(shard, ask, client, key):
    """Give a member another key, which it signed itself."""
    return replace(ask, keys=tuple(epoch_signed(shard, client, key) if k.client == client else k for k in ask.keys))


OTHER_KEY = public_exchange_key(secret("the server's own"))
EPOCH_LIES = {
    "client 1 comes with a signature that does not verify": lambda _, ask: replace(
        ask, keys=(replace(ask.keys[0], key=OTHER_KEY), *ask.keys[1:])
    ),
    "own key was replaced": lambda shard, ask: forge(shard, ask, VICTIM, OTHER_KEY),
    "not exactly those of the members": lambda _, ask: replace(ask, keys=ask.keys[:-1]),
    "names one twice": lambda _, ask: replace(ask, keys=(*ask.keys, ask.keys[-1])),
    "two members with equal keys": lambda shard, ask: forge(shard, ask, 4, ask.keys[0].key),
    "all zero": lambda shard, ask: forge(shard, ask, 3, LOW_ORDER),
    "no key was made for epoch 1": lambda _, ask: replace(ask, terms=replace(ask.terms, epoch=1)),
}


@pytest.mark.parametrize("why", EPOCH_LIES)
def test_a_client_refuses_lies_about_the_keys_of_an_epoch(why):
    shard = Shard(4, "all-or-nothing")
    outcome = shard.run(request=lie("upload", lambda ask: EPOCH_LIES[why](shard, ask)))
    assert_refused(shard, outcome, why)
    assert outcome.total is None


def test_a_client_refuses_other_members_within_an_epoch():
    shard = Shard(6, "all-or-nothing")
    few = make_terms(range(1, 5), "all-or-nothing")
    shard.respond(VICTIM, write(AskKey(few)))
    shard.respond(VICTIM, write(AskKey(make_terms((1, 2, 5, 6), "all-or-nothing"))))
    assert "gave a key for epoch 0 already" in shard.refusals[VICTIM]


def test_a_key_that_is_asked_for_again_is_the_same():
    shard = Shard(4, "all-or-nothing")
    ask = write(AskKey(shard.terms))
    assert shard.respond(VICTIM, ask) == shard.respond(VICTIM, ask)
