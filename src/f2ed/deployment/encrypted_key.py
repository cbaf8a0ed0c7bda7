"""A private key encrypted as OpenSSL does it: PKCS #8, PBES2 with scrypt (RFC 7914) and AES-256-CBC.

`cryptography` reads this form and writes another, whose passphrase it stretches far less (PBKDF2 with 2048 rounds). So
the few fields around the ciphertext are put together here; everything secret is computed by `cryptography`.
"""

import base64
import textwrap

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

__all__ = ["ENTROPY", "encrypted_pem", "is_encrypted"]

ENTROPY = 32
"""Bytes of randomness that a file needs: the salt and the initialization vector."""
# The memory that OpenSSL allows (32 MiB), with five times its default work.
_N, _R, _P = 1 << 14, 8, 5
_LABEL = b"ENCRYPTED PRIVATE KEY"
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
_SCRYPT = bytes.fromhex("06092b06010401da47040b")
_AES = bytes.fromhex("060960864801650304012a")


def is_encrypted(pem: bytes) -> bool:
    """Return whether a file in PEM holds an encrypted private key."""
    return b"-----BEGIN " + _LABEL in pem


def encrypted_pem(key: Ed25519PrivateKey, passphrase: bytes, entropy: bytes) -> bytes:
    """Return the key in PEM, encrypted under the passphrase; the entropy is used once only."""
    salt, start = entropy[:16], entropy[16:ENTROPY]
    plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    padder = PKCS7(128).padder()
    wrap = Scrypt(salt=salt, length=32, n=_N, r=_R, p=_P).derive(passphrase)
    encryptor = Cipher(AES256(wrap), CBC(start)).encryptor()
    hidden = encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()
    stretch = _der(_SEQUENCE, _SCRYPT, _der(_SEQUENCE, _der(_OCTETS, salt), *map(_integer, (_N, _R, _P))))
    cipher = _der(_SEQUENCE, _AES, _der(_OCTETS, start))
    scheme = _der(_SEQUENCE, _PBES2, _der(_SEQUENCE, stretch, cipher))
    body = base64.b64encode(_der(_SEQUENCE, scheme, _der(_OCTETS, hidden))).decode()
    lines = "\n".join(textwrap.wrap(body, 64)).encode()
    return b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (_LABEL, lines, _LABEL)


def _der(tag: int, *parts: bytes) -> bytes:
    """Return a value of ASN.1 in DER, shorter than 256 bytes."""
    content = b"".join(parts)
    length = bytes([len(content)]) if len(content) < 128 else bytes([0x81, len(content)])
    return bytes([tag]) + length + content


def _integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))
