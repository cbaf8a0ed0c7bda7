"""The transcript vectors: every message to the byte, every refusal by its name."""

import hashlib
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from f2ed.protocol.primitives.hybrid import Encapsulated
from f2ed.protocol.primitives.ring import Ring
from f2ed.protocol.secagg import Member, Terms, respond, secure_sum
from f2ed.protocol.secagg.terms import bind
from tests.protocol.secagg.vectors import generate

VECTORS = Path(__file__).parent / "vectors"
SCHEMES = ("all_or_nothing", "dropout_tolerant")


def vectors(part, kind):
    return [each for scheme in SCHEMES for each in json.loads((VECTORS / f"{scheme}_{part}.json").read_text())[kind]]


GOOD = vectors("good", "rounds")


WIRE = {
    "all_or_nothing_good.json": "d7baaa2a3dd39e58ce9e8887d635edc6333495331d7d1420908199d91b302f6f",
    "all_or_nothing_bad.json": "ad64653a70f5df8f917b810e71a6c512fe134bf05fee16a41bf342c3e343686d",
    "dropout_tolerant_good.json": "07b4d0241ccffcbacfe26840bc66aeee9e85c3ed88a7f4603fb179d175ec43a2",
    "dropout_tolerant_bad.json": "d0082f64efb48c3032ac58a77c870547228d5e9b4d967e93aabbbeaff969870d",
}


def name_of(vector):
    return vector["name"]


def setting(vector):
    terms = msgspec.convert([vector["terms"][name] for name in Terms.__struct_fields__], Terms)
    roster = {int(client): bytes.fromhex(key) for client, key in vector["roster"].items()}
    return terms, roster, bytes.fromhex(vector["model"])


def answer(vector, client, state, request, entropy=bytes(32), encapsulated=()):
    terms, roster, model = setting(vector)
    signing = bytes.fromhex(vector["signing_keys"][str(client)])
    member = Member(id=client, signing_key=signing, roster=roster, job=terms.job)
    words = np.array(vector["vectors"][str(client)], Ring(terms.ring).dtype)
    written = iter(encapsulated)
    return respond(
        member,
        state,
        request,
        model=model,
        contribution=lambda _: words,
        entropy=entropy,
        encapsulate=lambda _: Encapsulated(*map(bytes.fromhex, next(written))),
    )


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
def test_the_context_is_as_written(vector):
    terms, roster, model = setting(vector)
    assert bind(terms, roster, model).hex() == vector["context"]


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
def test_the_clients_reply_as_written(vector):
    states = {}
    for message in vector["messages"]:
        client = message["client"]
        given = answer(
            vector,
            client,
            states.get(client, b""),
            bytes.fromhex(message["request"]),
            bytes.fromhex(message["entropy"]),
            message.get("encapsulated", ()),
        )
        assert given.reply.hex() == message["reply"]
        states[client] = given.state


def replay(vector, replies):
    """Feed a server written replies, check its requests where they are written too, and return its outcome."""
    terms, roster, model = setting(vector)
    server = secure_sum(terms, roster, model=model)
    requests = next(server)
    steps = list(dict.fromkeys(message["step"] for message in replies))
    for step in steps:
        given = [message for message in replies if message["step"] == step]
        for message in given:
            assert requests[message["client"]].hex() == message.get("request", requests[message["client"]].hex())
        try:
            requests = server.send({message["client"]: bytes.fromhex(message["reply"]) for message in given})
            requests = requests or server.send({})
        except StopIteration as stop:
            return stop.value
    pytest.fail("the server asked for more than is written")


@pytest.mark.parametrize("vector", GOOD, ids=name_of)
def test_the_server_asks_as_written_and_finds_the_sum(vector):
    outcome = replay(vector, vector["messages"])
    assert list(outcome.survivors) == vector["survivors"]
    assert [int(word) % 2 ** vector["terms"]["ring"] for word in outcome.total] == vector["sum"]
    wanted = np.sum([vector["vectors"][str(client)] for client in vector["survivors"]], axis=0, dtype=object)
    assert vector["sum"] == [word % 2 ** vector["terms"]["ring"] for word in wanted]


@pytest.mark.parametrize("vector", vectors("bad", "to_client"), ids=name_of)
def test_a_client_refuses_what_must_be_refused(vector):
    given = answer(vector, vector["client"], bytes.fromhex(vector["state"]), bytes.fromhex(vector["request"]))
    assert given.refusal is not None
    assert vector["refusal"] in given.refusal


@pytest.mark.parametrize("vector", vectors("bad", "to_server"), ids=name_of)
def test_a_server_drops_who_must_be_dropped(vector):
    outcome = replay(vector, vector["replies"])
    assert vector["reason"] in outcome.dropped[vector["dropped"]]
    assert list(outcome.survivors) == vector["survivors"]
    assert [int(word) for word in outcome.total] == vector["sum"]


def test_the_files_are_what_the_script_writes():
    for file, content in generate.build().items():
        assert json.loads((VECTORS / file).read_text()) == json.loads(json.dumps(content))


def wire_bytes(value, name=""):
    """Yield the bytes of every context, request and reply of a file, in its order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from wire_bytes(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from wire_bytes(inner, name)
    elif name in {"context", "request", "reply"}:
        yield bytes.fromhex(value)


@pytest.mark.parametrize("file", WIRE)
def test_the_wire_format_is_pinned(file):
    """The files may gain readable names; a changed byte on the wire needs a new protocol version."""
    found = hashlib.sha256(b"".join(wire_bytes(json.loads((VECTORS / file).read_text())))).hexdigest()
    assert found == WIRE[file]
