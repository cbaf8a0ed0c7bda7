"""What a client remembers: no secret longer than needed, and none in sight."""

import msgspec
import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.secagg.messages import write
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Invite,
)
from tests.protocol.secagg.adversary import VICTIM
from tests.protocol.secagg.shard_driver import Shard, load


def secrets_of(value):
    """Yield every byte string in a state, however deep."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from secrets_of(each)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from secrets_of(getattr(value, name))


def test_no_repr_shows_a_secret():
    shard = Shard(4)
    seen = []

    def record(_step, client, data):
        seen.append(load(shard.states[client], "test"))
        return data

    shard.run(request=record)
    epoch = Shard(4, "all-or-nothing")
    epoch.run()
    seen += [load(state, "test") for state in epoch.states.values()]
    assert {type(state.phase).__name__ for state in seen} == {"NoneType", "Advertised", "Shared", "Masked", "Confirmed"}
    for state in seen:
        text = repr(state)
        for found in secrets_of((state.phase, state.key)):
            if len(found) >= 16:
                assert repr(found) not in text
                assert found.hex() not in text
    member = shard.members[1]
    assert repr(member.signing_key) not in repr(member)
    assert "secret" in repr(member)


def test_secrets_are_gone_from_the_state_after_their_last_use():
    shard, phases = Shard(4), {}

    def record(step, client, data):
        if client == VICTIM:
            phases[step] = shard.states[client]
        return data

    shard.run(request=record)
    advertised = load(phases["share"], "test").phase
    own = (advertised.mask, advertised.seed, advertised.channel)
    assert all(each in phases["upload"] for each in own)
    assert not any(each in phases["confirm"] for each in (advertised.mask, advertised.channel))
    assert advertised.seed in phases["reveal"]  # It is opened with the sum.
    assert advertised.seed not in shard.states[VICTIM]
    assert load(shard.states[VICTIM], "test").phase is None
    held = load(phases["reveal"], "test").phase.masked.held
    assert not any(each.mask in shard.states[VICTIM] or each.seed in shard.states[VICTIM] for each in held)


def test_a_new_round_erases_what_an_abandoned_one_left():
    shard = Shard(4)
    shard.run(drop=lambda step, client: step == "confirm")  # noqa: ARG005
    held = load(shard.states[VICTIM], "test").phase.held
    shard.next_round()
    shard.respond(VICTIM, write(Invite(shard.terms)))
    assert not any(each.seed in shard.states[VICTIM] for each in held)


def test_a_refusal_erases_the_secrets_of_the_round_and_keeps_its_mark():
    """Else a later request of the same round could go on with them."""
    shard = Shard(5)
    shard.run(request=lambda step, client, data: b"junk" if (step, client) == ("confirm", VICTIM) else data)
    state = load(shard.states[VICTIM], "test")
    assert VICTIM in shard.refusals
    assert state.phase is None
    assert state.mark == (shard.terms.epoch, shard.terms.round)


def test_a_state_of_another_job_or_of_random_bytes_is_the_callers_mistake():
    with pytest.raises(ConfigError, match="cannot be read"):
        load(b"\xc1", "test")
    shard = Shard(3)
    shard.run()
    with pytest.raises(ConfigError, match="keep one state per job"):
        load(shard.states[1], "another")
