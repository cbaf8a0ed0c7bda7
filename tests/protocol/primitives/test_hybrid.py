"""The hybrid agreement against published vectors, its own, and keys that must be refused."""

import json
from pathlib import Path

import cryptography_vectors
import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives import hybrid
from f2ed.protocol.primitives.fields import fields
from f2ed.protocol.primitives.hybrid import (
    CIPHERTEXT_BYTES,
    KEM_KEY_BYTES,
    HybridKey,
    PublicKeys,
    check_backend,
    check_public_keys,
    combine,
    encapsulate,
)
from tests.protocol.primitives import mlkem_reference
from tests.protocol.primitives.vectors import generate

PAIRS = json.loads((Path(__file__).parent / "vectors" / "hybrid.json").read_text())["pairs"]
KINDS = ("x25519+mlkem768", "x25519")
SALT = bytes(range(32))


def make(number=1, kind="x25519+mlkem768", label=b"test", salt=SALT):
    return HybridKey(bytes([number]) * 32, salt=salt, label=label, kind=kind)


def both(pair):
    return [
        HybridKey(
            bytes.fromhex(seed), salt=bytes.fromhex(pair["salt"]), label=pair["label"].encode(), kind=pair["kind"]
        )
        for seed in pair["seeds"]
    ]


def kat_records():
    """Read the first answers of ML-KEM-768's known-answer file."""
    with cryptography_vectors.open_vector_file("asymmetric/MLKEM/kat_MLKEM_768.rsp", "r") as lines:
        found: list[dict[str, bytes]] = []
        for line in lines:
            name, _, value = (part.strip() for part in line.partition("="))
            if name == "count":
                if len(found) == 100:
                    break
                found.append({})
            elif name and value:
                found[-1][name] = bytes.fromhex(value)
        return found


def test_ml_kem_decapsulation_agrees_with_the_known_answers(monkeypatch):
    records = kat_records()
    assert len(records) == 100
    for record in records:
        monkeypatch.setattr(hybrid, "derive", lambda *_, r=record, **__: r["d"] + r["z"])
        key = make()
        assert key.public_kem == record["pk"]
        assert key.decapsulate(record["ct"]) == record["ss"]
        assert key.decapsulate(record["ct_n"]) == record["ss_n"]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["kind"])
def test_the_keys_and_the_secret_are_as_written(pair):
    sender, receiver = both(pair)
    assert [key.public.exchange.hex() for key in (sender, receiver)] == pair["exchange_keys"]
    assert [key.public.kem.hex() for key in (sender, receiver)] == pair["kem_keys"]
    ciphertext, transcript = bytes.fromhex(pair["ciphertext"]), bytes.fromhex(pair["transcript"])
    assert receiver.decapsulate(ciphertext).hex() == pair["encapsulated"]
    for exchanged in (sender.exchange(receiver.public.exchange), receiver.exchange(sender.public.exchange)):
        assert exchanged.hex() == pair["exchanged"]
        secret = combine(
            exchanged, bytes.fromhex(pair["encapsulated"]), salt=bytes.fromhex(pair["salt"]), transcript=transcript
        )
        assert secret.hex() == pair["secret"]
    public = [sender.public.exchange, receiver.public.exchange, receiver.public.kem, ciphertext]
    assert transcript == fields(*public)


def test_the_vectors_are_what_the_script_writes():
    assert generate.build() == PAIRS


def test_what_is_encapsulated_is_found_by_the_owner_of_the_key_alone():
    made = encapsulate(make(1).public.kem)
    assert (len(made.ciphertext), len(made.secret)) == (CIPHERTEXT_BYTES, 32)
    assert make(1).decapsulate(made.ciphertext) == made.secret
    assert make(2).decapsulate(made.ciphertext) != made.secret
    changed = bytes([made.ciphertext[0] ^ 1]) + made.ciphertext[1:]
    assert make(1).decapsulate(changed) != made.secret


def test_every_salt_label_and_seed_gives_unrelated_keys():
    keys = [make(), make(2), make(label=b"other"), make(salt=bytes(32))]
    assert len({key.public.exchange for key in keys}) == len({key.public.kem for key in keys}) == len(keys)


def test_the_secret_is_bound_to_both_secrets_the_salt_and_the_whole_transcript():
    one, other = bytes(32), bytes([1]) * 32
    base = combine(one, one, salt=SALT, transcript=b"public")
    changed = [
        combine(other, one, salt=SALT, transcript=b"public"),
        combine(one, other, salt=SALT, transcript=b"public"),
        combine(one, b"", salt=SALT, transcript=b"public"),
        combine(one, one, salt=bytes(32), transcript=b"public"),
        combine(one, one, salt=SALT, transcript=b"publik"),
    ]
    assert len({base, *changed}) == 6


def test_the_sizes_are_those_of_fips_203():
    assert len(make().public.kem) == KEM_KEY_BYTES == 1184
    assert make(kind="x25519").public.kem == b""
    assert make(kind="x25519").public.exchange == make().public.exchange


@pytest.mark.parametrize("kind", KINDS)
def test_good_public_keys_pass(kind):
    check_public_keys(make(kind=kind).public, kind)


@pytest.mark.parametrize("wrong", [b"", bytes(1183), b"\xff" * 1184], ids=["none", "short", "not reduced"])
def test_bytes_that_are_no_ml_kem_key_are_refused(wrong):
    with pytest.raises(PeerError, match=f"{len(wrong)} bytes that are not an ML-KEM-768 key"):
        check_public_keys(make().public._replace(kem=wrong), "x25519+mlkem768")
    with pytest.raises(PeerError, match="not an ML-KEM-768 key"):
        encapsulate(wrong)


def test_an_x25519_key_of_small_order_is_refused_in_either_kind():
    for kind in KINDS:
        with pytest.raises(PeerError, match="small order"):
            check_public_keys(PublicKeys(bytes(32), make(kind=kind).public.kem), kind)


def test_an_ml_kem_key_or_ciphertext_is_refused_where_x25519_is_used_alone():
    with pytest.raises(PeerError, match="an ML-KEM key where X25519 is used alone"):
        check_public_keys(make().public, "x25519")
    alone = make(kind="x25519")
    assert alone.decapsulate(b"") == b""
    with pytest.raises(PeerError, match="ciphertext where X25519 is used alone"):
        alone.decapsulate(bytes(CIPHERTEXT_BYTES))


@pytest.mark.parametrize("size", [0, 1087, 1089])
def test_a_ciphertext_of_another_size_is_refused(size):
    with pytest.raises(PeerError, match=f"ciphertext of {size} bytes; it has 1088"):
        make().decapsulate(bytes(size))


def test_secrets_and_seeds_of_another_size_are_refused():
    with pytest.raises(ConfigError, match="a seed of 31 bytes"):
        HybridKey(bytes(31), salt=SALT, label=b"test")
    for wrong in ((b"", bytes(32)), (bytes(32), bytes(31))):
        with pytest.raises(ConfigError, match="each has 32"):
            combine(*wrong, salt=SALT, transcript=b"")


def test_an_installation_without_ml_kem_is_told_what_to_install(monkeypatch):
    class Without:
        @staticmethod
        def from_seed_bytes(_):
            raise UnsupportedAlgorithm("ML-KEM-768 is not supported by this backend")

        from_public_bytes = from_seed_bytes

    check_backend("x25519+mlkem768")
    monkeypatch.setattr(hybrid, "MLKEM768PrivateKey", Without)
    monkeypatch.setattr(hybrid, "MLKEM768PublicKey", Without)
    check_backend("x25519")
    for lacking in (lambda: check_backend("x25519+mlkem768"), lambda: make().public, lambda: encapsulate(bytes(1184))):
        with pytest.raises(ConfigError, match=r"needs ML-KEM-768, which .* lacks; .* 'cryptography>=48'"):
            lacking()


def test_nothing_secret_is_shown():
    made = encapsulate(make().public.kem)
    for shown in (repr(made), repr(make())):
        assert "<secret>" in shown
        assert made.secret.hex()[:16] not in shown
        assert repr(made.secret) not in shown


def test_the_library_finds_the_same_public_key():
    seed = hybrid.derive(bytes([1]) * 32, salt=SALT, info=b"test mlkem768", length=64)
    assert MLKEM768PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw() == make().public.kem


def test_the_tests_own_encapsulation_agrees_with_the_known_answers_and_the_library():
    for record in kat_records()[:10]:
        made = mlkem_reference.encapsulate(record["pk"], record["msg"])
        assert (made.ciphertext, made.secret) == (record["ct"], record["ss"])
    made = mlkem_reference.seeded("test")(make().public.kem)
    assert make().decapsulate(made.ciphertext) == made.secret
