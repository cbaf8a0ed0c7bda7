"""Write the transcript vectors: `python -m tests.protocol.helpers.vectors.generate` from the repository's root.

Every message of a round to the byte, and messages that must be refused, with fixed keys and randomness.
"""

import json
from pathlib import Path

import msgspec

from f2ed.protocol.helpers import JUDGE, MIXER, judge, mixer
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers import requests as ask
from f2ed.protocol.helpers.terms import bind
from tests.protocol.helpers.federation import MODEL, Federation, fixed, updates

SIZE = 6
SETTINGS = {"crowd": 3, "sketch": 9, "tests": 2, "spot": 2}
replace = msgspec.structs.replace


class Recorded(Federation):
    """A federation that writes down what every party was given and replied."""

    def __init__(self, **changes):
        super().__init__(clients=4, coordinates=SIZE, **(SETTINGS | changes))
        self.messages = []

    def client_reply(self, i, request, numbers):
        state, counter = self.client_states.get(i, b""), self.counter
        reply = super().client_reply(i, request, numbers)
        self._write(i, state, request, reply, counter)
        return reply

    def helper_reply(self, role, request, terms):
        state, counter = self.states[role], self.counter
        reply = super().helper_reply(role, request, terms)
        self._write(role, state, request, reply, counter)
        return reply

    def _write(self, party, state, request, reply, counter):
        entropy = fixed("entropy", self.seed, counter + 1)
        given = {"state": state, "request": request, "entropy": entropy, "reply": reply}
        self.messages.append({"party": party} | {name: value.hex() for name, value in given.items()})


def good(name, **changes):
    """Return a round in which everything goes well."""
    it = Recorded(**changes)
    terms, numbers = it.terms(), updates(it.ids, SIZE)
    outcome = it.run(numbers, terms=terms)
    return {
        "name": name,
        "context": bind(terms, it.roster, MODEL).hex(),
        "halves": [half.hex() for half in it.halves(terms)],
        "numbers": {str(client): row.tolist() for client, row in numbers.items()},
        "messages": it.messages,
        "kept": list(outcome.kept),
        "mean": outcome.mean.tobytes().hex(),
    }


def bad():
    """Return requests that a helper must refuse, each with the state in which it meets them."""
    it = Recorded()
    terms = it.terms()
    it.run(updates(it.ids, SIZE), terms=terms)
    found = []
    machine = {MIXER: mixer.MACHINE, JUDGE: judge.MACHINE}
    for entry in it.messages:
        role = entry["party"]
        if role not in machine:
            continue
        request = m.decode(tuple(machine[role]), bytes.fromhex(entry["request"]))
        for name, other in spoiled(request):
            found.append(
                {"name": f"{role}: {type(request).__name__}, {name}", "role": role, "state": entry["state"]}
                | {"request": m.write(other).hex(), "refusal": refusal(it, role, entry["state"], other)}
            )
    return found


def refusal(it, role, state, request):
    it.states[role] = bytes.fromhex(state)
    reply = Federation.helper_reply(it, role, m.write(request), it.terms())
    return m.decode((m.Refused,), reply).reason


def spoiled(request):
    """Yield wrong versions of a request."""
    for name in type(request).__struct_fields__:
        value = getattr(request, name)
        if isinstance(value, bytes | memoryview) and value and name != "model":
            yield f"a byte of {name} changed", replace(request, **{name: bytes([value[0] ^ 1]) + bytes(value[1:])})
    if isinstance(request, ask.AskOpening):
        yield "another operator", replace(request, terms=replace(request.terms, operators=("A", "X", "Y")))
    if isinstance(request, ask.AskSet):
        yield "a client twice", ask.AskSet((0, 0, 1, 2))
        yield "a stranger", ask.AskSet((0, 1, 2, 77))
        yield "too few", ask.AskSet((0, 1))
    if isinstance(request, ask.AskMask):
        yield "other survivors", ask.AskMask(replace(request.weighed, kept=request.weighed.kept[:-1]))
    if isinstance(request, ask.AskCombination):
        yield "no signature", ask.AskCombination(replace(request.combined, signature=bytes(64)))


def build():
    """Return the content of every file."""
    rounds = [good("sketches and spot checks"), good("full relay", relay="full")]
    groups = ((0, 1), (2, 3))
    rounds.append(good("fixed groups", step=0, groups=groups))
    return {"good.json": {"rounds": rounds}, "bad.json": {"to_helper": bad()}}


if __name__ == "__main__":
    for file, content in build().items():
        (Path(__file__).parent / file).write_text(json.dumps(content, indent=1) + "\n")
