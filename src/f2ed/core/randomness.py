"""Named streams of random numbers from one seed, for experiments and never for secrets."""

import hashlib

import numpy as np

__all__ = ["stream"]


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """Return the generator of one named stream: the same seed and name give the same numbers.

    Streams are independent of each other and of the order in which they are created, so that
    adding a draw in one place changes no other: `stream(seed, "batches", round, client)`.
    """
    label = "/".join(f"{type(part).__name__}:{part}" for part in name)
    digest = hashlib.sha256(f"{seed}|{label}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
