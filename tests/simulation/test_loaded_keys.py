"""What two simulated clients share is computed once, and is what each of them would compute."""

from typing import ClassVar

import pytest

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.hybrid import HybridKey, encapsulate
from f2ed.simulation import loaded_keys
from f2ed.simulation.loaded_keys import LoadedKeys

SALT = bytes(32)
KINDS = ("x25519+mlkem768", "x25519")


class Counted:
    """A `HybridKey` that records what it computes."""

    calls: ClassVar[list[str]] = []

    def __init__(self, *args, **kwargs):
        self._key = HybridKey(*args, **kwargs)
        self.calls.append("load")

    @property
    def public(self):
        return self._key.public

    def exchange(self, public):
        self.calls.append("exchange")
        return self._key.exchange(public)

    def decapsulate(self, ciphertext):
        self.calls.append("decapsulate")
        return self._key.decapsulate(ciphertext)


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(loaded_keys, "HybridKey", Counted)
    monkeypatch.setattr(Counted, "calls", found := [])
    return found


def seed(number):
    return bytes([number]) * 32


def loaded(keys, number, kind=KINDS[0]):
    return keys.load(seed(number), salt=SALT, label=b"test", kind=kind)


def alone(number, kind=KINDS[0]):
    return HybridKey(seed(number), salt=SALT, label=b"test", kind=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_agrees_on_the_secret_that_each_would_compute_alone(kind):
    keys = LoadedKeys()
    one, other = loaded(keys, 1, kind), loaded(keys, 2, kind)
    assert (one.public, one.public_kem) == (alone(1, kind).public, alone(1, kind).public.kem)
    wanted = alone(1, kind).exchange(other.public.exchange)
    assert one.exchange(other.public.exchange) == other.exchange(one.public.exchange) == wanted
    made = keys.encapsulate(loaded(keys, 2).public_kem)
    assert loaded(keys, 2).decapsulate(made.ciphertext) == made.secret == alone(2).decapsulate(made.ciphertext)


def test_keys_are_loaded_once_and_a_shared_secret_is_computed_once(calls):
    keys = LoadedKeys()
    made = keys.encapsulate(loaded(keys, 2).public.kem)
    loaded(keys, 1).exchange(loaded(keys, 2).public.exchange)
    loaded(keys, 2).exchange(loaded(keys, 1).public.exchange)
    loaded(keys, 2).decapsulate(made.ciphertext)
    assert sorted(calls) == ["exchange", "load", "load"]


def test_a_secret_is_forgotten_once_both_have_it(calls):
    keys = LoadedKeys()
    one, other = loaded(keys, 1), loaded(keys, 2)
    made = keys.encapsulate(other.public_kem)
    for _ in range(3):
        assert one.exchange(other.public.exchange) == alone(2).exchange(one.public.exchange)
        assert other.decapsulate(made.ciphertext) == made.secret
    assert calls.count("exchange") == calls.count("decapsulate") == 2


def test_a_ciphertext_opens_to_its_secret_for_its_recipient_alone():
    keys = LoadedKeys()
    made = keys.encapsulate(loaded(keys, 2).public_kem)
    assert loaded(keys, 1).decapsulate(made.ciphertext) == alone(1).decapsulate(made.ciphertext) != made.secret


def test_secrets_from_elsewhere_are_computed():
    keys = LoadedKeys()
    made = encapsulate(alone(1).public.kem)
    assert loaded(keys, 1).decapsulate(made.ciphertext) == made.secret


def test_another_label_or_context_has_other_keys():
    keys = LoadedKeys()
    found = {
        keys.load(seed(1), salt=salt, label=label).public.exchange
        for salt, label in [(SALT, b"a"), (SALT, b"b"), (bytes(31) + b"\1", b"a")]
    }
    assert len(found) == 3


def test_a_key_of_small_order_is_refused():
    with pytest.raises(PeerError, match="small order"):
        loaded(LoadedKeys(), 1).exchange(bytes(32))
