"""The transcripts of all-or-nothing rounds."""

from msgspec.structs import replace

from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg.keys import epoch_key_text
from f2ed.protocol.secagg.messages import SignedKey, write
from f2ed.protocol.secagg.schemes import read_request
from tests.protocol.secagg.shard_driver import Shard
from tests.protocol.secagg.vectors.transcript import good, setting

GOOD = {
    "all-or-nothing, four members": {"size": 4},
    "all-or-nothing, three members, 16-bit ring": {"size": 3, "ring": 16, "bits": 12},
}


def bad_epoch_key() -> dict:
    """Return an epoch key that was signed for another epoch."""
    name = "the key of another epoch"
    shard = Shard(3, "all-or-nothing", seed=name, length=6)
    found = {}

    def request(step, client, data):
        if (step, client) != ("upload", 2):
            return data
        ask = read_request(data)
        stale = SignedKey(1, ask.keys[0].key, bytes(64))
        stale = replace(stale, signature=sign(shard.signing[1], epoch_key_text(bytes(32), stale)))
        data = write(replace(ask, keys=(stale, *ask.keys[1:])))
        found.update(state=shard.states[2].hex(), request=data.hex())
        return data

    shard.run(request=request)
    return {"name": name, "client": 2, **setting(shard), **found, "refusal": "does not verify"}


def build() -> dict[str, dict]:
    """Return the contents of the files by name."""
    rounds = [good(name, mode="all-or-nothing", **how) for name, how in GOOD.items()]
    return {
        "all_or_nothing_good.json": {"version": 3, "rounds": rounds},
        "all_or_nothing_bad.json": {"version": 3, "to_client": [bad_epoch_key()], "to_server": []},
    }
