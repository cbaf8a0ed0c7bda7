"""The primitives against published vectors."""

import cryptography_vectors
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives import crypto as primitives
from f2ed.protocol.primitives.crypto import (
    ExchangeKey,
    Keystream,
    check_exchange_key,
    derive,
    public_key,
    seal,
    seal_into,
    sign,
    unseal,
    verify,
)


class Counted:
    """Keys of the library that count how many are loaded."""

    def __init__(self, loaded, kind=Ed25519PublicKey):
        self._loaded, self._kind = loaded, kind

    def __getattr__(self, name):
        def load(key):
            self._loaded.append(key)
            return getattr(self._kind, name)(key)

        return load


def records(path):
    """Read a file of `NAME = value` lines into one dictionary per count."""
    with cryptography_vectors.open_vector_file(path, "r") as lines:
        found = []
        for line in lines:
            name, equals, value = (part.strip() for part in line.partition("="))
            if name.upper() == "COUNT":
                found.append({})
            elif found and equals:
                found[-1][name.upper()] = value
            elif found and name == "FAIL":
                found[-1]["FAIL"] = ""
        return found


def unhex(record, *names):
    return [bytes.fromhex(record[name]) for name in names]


def test_x25519_agrees_with_rfc_7748():
    for record in records("asymmetric/X25519/rfc7748.txt")[:2]:
        scalar, point, output = unhex(record, "INPUT_SCALAR", "INPUT_U", "OUTPUT_U")
        assert ExchangeKey(scalar)(point) == output


def test_public_keys_agree_with_rfc_7748_after_one_iteration():
    (first, *_) = (each for each in records("asymmetric/X25519/rfc7748.txt") if each["INPUT_SCALAR"].startswith("09"))
    scalar, output = unhex(first, "INPUT_SCALAR", "OUTPUT_U")
    assert ExchangeKey(scalar).public == output


def test_hkdf_agrees_with_rfc_5869():
    vectors = records("KDF/rfc-5869-HKDF-SHA256.txt")
    assert len(vectors) == 3
    for record in vectors:
        secret, salt, info, output = unhex(record, "IKM", "SALT", "INFO", "OKM")
        assert derive(secret, salt=salt, info=info, length=int(record["L"])) == output


def test_the_keystream_agrees_with_rfc_3686_and_starts_anywhere():
    vectors = records("ciphers/AES/CTR/aes-256-ctr.txt")
    assert len(vectors) == 3
    for record in vectors:
        key, plain, cipher = unhex(record, "KEY", "PLAINTEXT", "CIPHERTEXT")
        out = bytearray(len(plain))
        Keystream(key, skip=int(record["IV"], 16)).fill(memoryview(out))
        assert bytes(a ^ b for a, b in zip(out, plain, strict=True)) == cipher


def test_the_keystream_never_leaves_a_byte_as_it_was():
    whole = bytearray(1 << 19)
    Keystream(bytes(32)).fill(memoryview(whole))
    assert any(whole[-16:])
    with pytest.raises(ConfigError, match="524289 bytes of keystream at a time; fill at most 524288"):
        Keystream(bytes(32)).fill(memoryview(bytearray((1 << 19) + 1)))


def test_sealing_agrees_with_nists_aes_gcm(monkeypatch):
    checked = 0
    for record in records("ciphers/AES/GCM/gcmDecrypt256.rsp"):
        key, nonce, cipher, associated, tag = unhex(record, "KEY", "IV", "CT", "AAD", "TAG")
        if len(nonce) != 12 or len(tag) != 16:
            continue
        monkeypatch.setattr(primitives, "_ONE_MESSAGE", nonce)
        checked += 1
        if "FAIL" in record:
            with pytest.raises(PeerError, match="does not open"):
                unseal(key, cipher + tag, associated=associated)
        else:
            (plain,) = unhex(record, "PT")
            assert unseal(key, cipher + tag, associated=associated) == plain
            assert seal(key, plain, associated=associated) == cipher + tag
    assert checked > 300


def test_sealing_into_memory_that_is_used_again_gives_the_same_bytes():
    out = bytearray()
    for size in (100, 1000, 1000, 0, 7):
        plain = bytes(range(256)) * 4
        seal_into(out, bytes(32), bytearray(plain[:size]), associated=b"a")
        assert out == seal(bytes(32), plain[:size], associated=b"a")
        assert unseal(bytes(32), memoryview(out), associated=b"a") == plain[:size]


def test_ed25519_agrees_with_the_reference_vectors():
    with cryptography_vectors.open_vector_file("asymmetric/Ed25519/sign.input", "r") as lines:
        vectors = [line.split(":") for line in lines][:100]
    for secret, public, message, signed, _ in vectors:
        seed, key, text = bytes.fromhex(secret)[:32], bytes.fromhex(public), bytes.fromhex(message)
        signature = bytes.fromhex(signed)[:64]
        verify(key, text, signature)  # First: what was signed here is known.
        assert public_key(seed) == key
        assert sign(seed, text) == signature


def test_a_signature_on_another_text_does_not_verify():
    seed = bytes(range(32))
    with pytest.raises(PeerError, match="does not verify"):
        verify(public_key(seed), b"one", sign(seed, b"other"))


def test_a_signature_that_is_known_is_verified_once_and_no_other_passes_for_it(monkeypatch):
    checked, seed, other = [], bytes(range(32)), bytes(range(1, 33))
    key, forged = public_key(seed), bytes(64)
    monkeypatch.setattr(primitives, "_valid", set())
    monkeypatch.setattr(primitives, "Ed25519PublicKey", Counted(checked))
    signature = sign(seed, b"text")
    primitives._valid.clear()
    for _ in range(3):
        verify(key, b"text", signature)
    assert len(checked) == 1
    for changed in ((public_key(other), b"text", signature), (key, b"texts", signature), (key, b"text", forged)):
        for _ in range(2):
            with pytest.raises(PeerError, match="does not verify"):
                verify(*changed)
    assert len(checked) == 7


def test_what_a_process_signed_itself_it_need_not_verify(monkeypatch):
    checked, seed = [], bytes(range(32))
    monkeypatch.setattr(primitives, "Ed25519PublicKey", Counted(checked))
    verify(public_key(seed), b"signed here", sign(seed, b"signed here"))
    assert not checked


def test_the_memory_of_signatures_is_bounded(monkeypatch):
    monkeypatch.setattr(primitives, "_valid", set())
    monkeypatch.setattr(primitives, "_MOST_REMEMBERED", 3)
    for text in range(10):
        sign(bytes(32), bytes([text]))
        assert len(primitives._valid) <= 3


@pytest.mark.parametrize("low_order", [bytes(32), b"\x01" + bytes(31)])
def test_an_all_zero_agreement_is_refused(low_order):
    with pytest.raises(PeerError, match="all zero"):
        ExchangeKey(bytes(range(32)))(low_order)


def test_a_key_that_this_process_made_is_usable_and_one_of_small_order_never_is(monkeypatch):
    probed = []
    monkeypatch.setattr(primitives, "_valid", set())
    monkeypatch.setattr(primitives, "_probe", lambda public: probed.append(public) or ExchangeKey(bytes(32))(public))
    made, strange = ExchangeKey(bytes(range(32))).public, bytes(range(32))
    for public in (made, strange):
        check_exchange_key(public)
    assert probed == [strange]
    for _ in range(2):
        with pytest.raises(PeerError, match="small order"):
            check_exchange_key(bytes(32))


def test_a_key_that_signs_is_loaded_once(monkeypatch):
    loaded = []
    monkeypatch.setattr(primitives, "Ed25519PrivateKey", Counted(loaded, Ed25519PrivateKey))
    primitives._signer.cache_clear()
    seed = bytes(range(5, 37))
    assert sign(seed, b"one") != sign(seed, b"other")
    verify(public_key(seed), b"one", sign(seed, b"one"))
    assert loaded == [seed]


def test_a_key_that_is_not_aes_256_is_refused():
    with pytest.raises(ConfigError, match="16 bytes; AES-256 takes 32"):
        Keystream(bytes(16))
