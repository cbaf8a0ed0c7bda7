"""A round in memory, written down."""

from msgspec import to_builtins

from f2ed.protocol.secagg.terms import bind
from tests.protocol.secagg.shard_driver import MODEL, Shard, secret


def setting(shard: Shard) -> dict:
    """Describe what all parties hold before the round."""
    return {
        "terms": dict(zip(shard.terms.__struct_fields__, to_builtins(shard.terms), strict=True)),
        "signing_keys": {str(c): key.hex() for c, key in shard.signing.items()},
        "roster": {str(c): key.hex() for c, key in shard.roster.items()},
        "model": MODEL.hex(),
        "context": bind(shard.terms, shard.roster, MODEL).hex(),
        "vectors": {str(c): [int(word) for word in vector] for c, vector in shard.vectors.items()},
    }


def good(name: str, size: int, drop: tuple[str, int] | None = None, mode: str = "dropout-tolerant", **changes) -> dict:
    shard, messages, asked = Shard(size, mode, seed=name, length=6, exact=True, **changes), [], {}

    def request(_step, client, data):
        asked[client] = data
        return data

    def reply(step, client, data):
        entropy = secret(shard.seed, "entropy", client, shard.calls)
        messages.append(
            {
                "step": step,
                "client": client,
                "entropy": entropy.hex(),
                "request": asked[client].hex(),
                "reply": data.hex(),
                **({"encapsulated": made} if (made := shard.encapsulated.pop(client, [])) else {}),
            }
        )
        return data

    outcome = shard.run(drop=lambda step, client: (step, client) == drop, request=request, reply=reply)
    return {
        "name": name,
        **setting(shard),
        "messages": messages,
        "survivors": list(outcome.survivors),
        "sum": shard.total_of(outcome),
    }
