"""The registry of schemes: what each promises, and that a new one is a single class."""

import ast
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.secagg import Mode, ModeChoice, choose_mode, encapsulate, respond, scheme_of, secure_sum
from f2ed.protocol.secagg.gather import Adder, gather
from f2ed.protocol.secagg.member import begin, masked_upload
from f2ed.protocol.secagg.messages import Message, Opening, Request, Upload, read_reply, write
from f2ed.protocol.secagg.schemes import MAX_ALL_OR_NOTHING, SCHEMES, phases, read_request
from f2ed.protocol.secagg.schemes.base import Quorum, Scheme
from f2ed.protocol.secagg.state import Phase
from f2ed.protocol.secagg.terms import MIN_CROWD, bind
from tests.protocol.secagg.shard_driver import MODEL, Shard, load, secret

SOURCE = Path(__file__).parents[3] / "src" / "f2ed"


def test_every_scheme_has_a_mode_that_settings_can_name():
    assert set(SCHEMES) == set(get_args(Mode))
    assert set(get_args(ModeChoice)) == {"auto", *(mode for mode, each in SCHEMES.items() if each.masked)}


def test_mode_strings_live_in_the_schemes_alone():
    """Elsewhere callers ask a scheme for its properties; records and reports have names of their own."""
    named = {}
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts
        if inside[:3] == ("protocol", "secagg", "schemes") or inside[0] in {"records", "report"}:
            continue
        words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        if found := words & set(SCHEMES):
            named["/".join(inside)] = found
    assert named == {}


@pytest.mark.parametrize("mode", SCHEMES)
@pytest.mark.parametrize("members", [3, 4, 9, 10])
def test_the_smallest_quorum_is_one_that_every_party_accepts(mode, members):
    shard = Shard(members, mode, member={"clear": True})
    threshold, min_crowd = SCHEMES[mode].quorum(members)
    assert (shard.terms.threshold, shard.terms.min_crowd) == (threshold, min_crowd)
    assert shard.run().reason is None
    if SCHEMES[mode].masked:
        assert min_crowd >= max(threshold, MIN_CROWD)


@pytest.mark.parametrize("mode", SCHEMES)
def test_the_properties_of_a_scheme_are_true(mode):
    scheme = SCHEMES[mode]
    shard = Shard(5, mode, member={"clear": True})
    assert bool(shard.run().keys) == scheme.keeps_keys
    first = shard.calls
    shard.next_round()
    shard.run()
    assert (shard.calls - first > 5) == scheme.several_steps
    if scheme.masked:
        shard.next_round()
        outcome = shard.run(drop=lambda step, client: step == "upload" and client == 2)
        assert (outcome.total is not None) == scheme.tolerates_dropouts


def test_auto_chooses_by_the_size_of_the_shard():
    assert choose_mode("auto", MAX_ALL_OR_NOTHING) == "all-or-nothing"
    assert choose_mode("auto", MAX_ALL_OR_NOTHING + 1) == "dropout-tolerant"
    assert choose_mode("dropout-tolerant", 3) == "dropout-tolerant"


def test_an_unknown_mode_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="unknown mode 'ring'; choose one of all-or-nothing, dropout-tolerant, clear"):
        scheme_of("ring")
    with pytest.raises(msgspec.ValidationError, match=r"Invalid enum value 'ring' - at `\$.mode`"):
        msgspec.convert({"mode": "ring"}, Protocol)


def test_a_client_refuses_terms_of_an_unknown_mode():
    shard = Shard(4, "all-or-nothing")
    asked = next(secure_sum(shard.terms, shard.roster, model=MODEL))[2]
    shard.respond(2, asked.replace(b"all-or-nothing", b"nothing-at-all"))
    assert "terms of an unknown mode 'nothing-at-all'" in shard.refusals[2]


def test_a_server_refuses_terms_of_an_unknown_mode():
    shard = Shard(4)
    with pytest.raises(ConfigError, match="unknown mode 'ring'"):
        next(secure_sum(msgspec.structs.replace(shard.terms, mode="ring"), shard.roster, model=MODEL))


@pytest.mark.parametrize("mode", [mode for mode, scheme in SCHEMES.items() if not scheme.keeps_keys])
def test_a_scheme_that_keeps_no_keys_agrees_on_none(mode):
    shard = Shard(4, mode)
    with pytest.raises(ConfigError, match="keeps no keys"):
        SCHEMES[mode].agree_on_keys(shard.terms, shard.roster, {})


# A toy scheme in one class: two steps, messages and a phase of its own, and a mask that everyone knows.


class AskHello(Opening, frozen=True, tag="toy-hello"):
    """Begins a round."""


class HelloReply(Message, frozen=True, tag="toy-reply"):
    """Agrees to it."""


class AskWords(Request, frozen=True, tag="toy-words"):
    """Asks for the update."""


class Greeted(Phase, frozen=True, tag="toy-greeted"):
    """After the first step."""

    context: bytes
    terms: bytes


def hello(request, state, member, local):
    context = bind(request.terms, member.roster, local.model)
    phase = Greeted(context, msgspec.msgpack.encode(request.terms))
    return msgspec.structs.replace(begin(state, request.terms), phase=phase), HelloReply()


def words(request, state, member, local):  # noqa: ARG001  all steps have the same signature
    if not isinstance(state.phase, Greeted):
        raise PeerError("words before a hello")
    terms = msgspec.msgpack.decode(state.phase.terms, type=type(Shard(3).terms))
    return msgspec.structs.replace(state, phase=None), masked_upload(terms, state.phase.context, [], local)


class Toy(Scheme):
    """Adds in the clear after a greeting; a member may drop out."""

    mode = "toy"
    tolerates_dropouts = True
    several_steps = True
    steps = {AskHello: hello, AskWords: words}  # noqa: RUF012
    phases = (Greeted,)

    def quorum(self, members, colluders=0):  # noqa: ARG002
        return Quorum(MIN_CROWD, max(MIN_CROWD, members - 1))

    def check(self, terms):
        if terms.bits > 20:
            raise ConfigError("a toy adds at most 20 bits")

    def add(self, shard):
        ask = dict.fromkeys(shard.terms.members, write(AskHello(shard.terms)))
        there = yield from gather("hello", ask, lambda _, data: read_reply(HelloReply, data), shard.dropped)
        adder = Adder(shard.terms, shard.context)
        uploaded = yield from gather("words", dict.fromkeys(there, write(AskWords())), adder.take, shard.dropped)
        if len(uploaded) < shard.terms.min_crowd:
            raise PeerError("too few words")
        return tuple(uploaded), adder.total


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(SCHEMES, Toy.mode, Toy())


def toy_round(shard, gone=()):
    server = secure_sum(shard.terms, shard.roster, model=MODEL)
    requests, replied = next(server), []
    while True:
        replies = {client: shard.respond(client, asked) for client, asked in requests.items() if client not in gone}
        replied.append(replies)
        try:
            requests = server.send(replies)
            requests = requests or server.send({})
        except StopIteration as stop:
            return stop.value, replied


@pytest.mark.usefixtures("toy")
def test_a_new_scheme_is_one_class_and_one_entry():
    shard = Shard(4, "toy")
    outcome, replied = toy_round(shard)
    assert outcome.survivors == (1, 2, 3, 4)
    assert shard.total_of(outcome) == shard.sum_of((1, 2, 3, 4))
    assert [len(replies) for replies in replied] == [4, 4]
    shard.next_round()
    outcome, _ = toy_round(shard, gone={3})
    assert outcome.survivors == (1, 2, 4)
    assert shard.total_of(outcome) == shard.sum_of((1, 2, 4))
    assert outcome.dropped[3] == "hello: no reply"


@pytest.mark.usefixtures("toy")
def test_a_new_scheme_cannot_skip_the_checks_of_all():
    """Terms are accepted before the scheme sees them, and its own check is part of that."""
    shard = Shard(4, "toy")
    for changes, why in (
        ({"job": "another"}, "an invitation to job 'another'"),
        ({"bits": 24}, "a toy adds at most 20 bits"),
        ({"min_crowd": 2}, "sums of 2 may be opened"),
        ({"bits": 32}, "overflow"),
    ):
        shard.respond(2, write(AskHello(msgspec.structs.replace(shard.terms, **changes))))
        assert why in shard.refusals[2]
    shard.respond(2, write(AskHello(Shard(4).terms)))
    assert "came with a request of another mode (AskHello)" in shard.refusals[2]


@pytest.mark.usefixtures("toy")
def test_messages_and_phases_of_a_new_scheme_are_read_while_it_is_registered():
    assert Greeted in phases()
    assert read_request(write(AskWords())) == AskWords()
    assert not read_request(write(AskWords())).asks_update
    shard = Shard(3, "toy")
    shard.respond(1, write(AskHello(shard.terms)))
    assert isinstance(load(shard.states[1], "test").phase, Greeted)
    answer = respond(
        shard.members[1], shard.states[1], write(AskWords()), model=MODEL,
        contribution=lambda _: np.zeros(20, np.uint32), entropy=secret("toy"), encapsulate=encapsulate,
    )  # fmt: skip
    assert read_reply(Upload, answer.reply, payload=80).payload == bytes(80)


def test_messages_of_an_unregistered_scheme_are_not_read():
    with pytest.raises(PeerError, match="cannot be read"):
        read_request(write(AskWords()))
