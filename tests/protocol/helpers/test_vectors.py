"""The transcript vectors: every message to the byte, every refusal by its name."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from f2ed.protocol.helpers import JUDGE, MIXER
from f2ed.protocol.helpers import messages as m
from tests.protocol.helpers.federation import RESPOND, Federation
from tests.protocol.helpers.vectors import generate

VECTORS = Path(__file__).parent / "vectors"
GOOD = json.loads((VECTORS / "good.json").read_text())["rounds"]
BAD = json.loads((VECTORS / "bad.json").read_text())["to_helper"]
WIRE = "65350e07790fa483b0d9da1bdf2193d0d765ed3ea6e0b07d63c771af77b57935"


def name_of(vector):
    return vector["name"]


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
def test_every_party_replies_as_written(vector):
    it = Federation(clients=4, coordinates=generate.SIZE, **generate.SETTINGS)
    halves = dict(zip((MIXER, JUDGE), map(bytes.fromhex, vector["halves"]), strict=True))
    for message in vector["messages"]:
        party, state, request, entropy, reply = (
            message[name] if name == "party" else bytes.fromhex(message[name])
            for name in ("party", "state", "request", "entropy", "reply")
        )
        if party in halves:
            answer = RESPOND[party](it.helper(party), state, request, entropy=entropy, half=halves[party])
            assert answer.reply == reply
        else:
            it.fresh = lambda entropy=entropy: entropy
            it.client_states[party] = state
            assert it.client_reply(party, request, np.array(vector["numbers"][str(party)])) == reply


@pytest.mark.parametrize("vector", BAD, ids=name_of)
def test_a_helper_refuses_what_must_be_refused(vector):
    it = Federation(clients=4, coordinates=generate.SIZE, **generate.SETTINGS)
    answer = RESPOND[vector["role"]](
        it.helper(vector["role"]),
        bytes.fromhex(vector["state"]),
        bytes.fromhex(vector["request"]),
        entropy=bytes(32),
        half=bytes(32),
    )
    assert vector["refusal"] in (answer.refusal or "")
    assert m.decode((m.Refused,), answer.reply).reason == vector["refusal"]


def test_the_files_are_what_the_script_writes():
    for file, content in generate.build().items():
        assert json.loads((VECTORS / file).read_text()) == json.loads(json.dumps(content))


def test_the_wire_format_is_pinned():
    """The files may gain readable names; a changed byte on the wire needs a new protocol version."""
    sent = [bytes.fromhex(each[name]) for one in GOOD for each in one["messages"] for name in ("request", "reply")]
    assert hashlib.sha256(b"".join(sent)).hexdigest() == WIRE
