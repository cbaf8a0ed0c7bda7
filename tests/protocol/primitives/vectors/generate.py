"""Write the vectors of the hybrid agreement: `python -m tests.protocol.primitives.vectors.generate`."""

import json
from pathlib import Path

from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import fields
from f2ed.protocol.primitives.hybrid import Agreement, Encapsulated, HybridKey, combine
from tests.protocol.primitives.mlkem_reference import seeded

KINDS: tuple[Agreement, ...] = ("x25519+mlkem768", "x25519")
SALT = digest(b"a context")


def pair(kind: Agreement, number: int) -> dict[str, object]:
    """Return one agreement between a sender and a receiver, with all that led to it."""
    seeds = [digest(kind.encode(), bytes([number, side])) for side in (0, 1)]
    sender, receiver = (HybridKey(seed, salt=SALT, label=b"vector", kind=kind) for seed in seeds)
    kem = receiver.public.kem
    ciphertext, secret = seeded("vector", number)(kem) if kem else Encapsulated(b"", b"")
    exchanged = sender.exchange(receiver.public.exchange)
    transcript = fields(sender.public.exchange, receiver.public.exchange, receiver.public.kem, ciphertext)
    return {
        "kind": kind,
        "salt": SALT.hex(),
        "label": "vector",
        "seeds": [seed.hex() for seed in seeds],
        "exchange_keys": [key.public.exchange.hex() for key in (sender, receiver)],
        "kem_keys": [key.public.kem.hex() for key in (sender, receiver)],
        "ciphertext": ciphertext.hex(),
        "encapsulated": secret.hex(),
        "exchanged": exchanged.hex(),
        "transcript": transcript.hex(),
        "secret": combine(exchanged, secret, salt=SALT, transcript=transcript).hex(),
    }


def build() -> list[dict[str, object]]:
    """Return the vectors."""
    return [pair(kind, number) for kind in KINDS for number in range(2)]


if __name__ == "__main__":
    Path(__file__).with_name("hybrid.json").write_text(json.dumps({"pairs": build()}, indent=1) + "\n")
