"""The server's side of all-or-nothing."""

from collections.abc import Mapping
from typing import ClassVar, Literal, final

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import digest, verify
from f2ed.protocol.primitives.hybrid import CIPHERTEXT_BYTES, HYBRID, PublicKeys, check_public_keys
from f2ed.protocol.secagg.gather import Adder, gather, name_some
from f2ed.protocol.secagg.messages import (
    AskChains,
    AskKey,
    AskUpload,
    AskWraps,
    Ready,
    Request,
    SignedKey,
    Wrap,
    Wraps,
    read_reply,
    write,
)
from f2ed.protocol.secagg.schemes.all_or_nothing import pairs
from f2ed.protocol.secagg.schemes.all_or_nothing.client import begin_chains, give_key, upload, wrap_secrets
from f2ed.protocol.secagg.schemes.base import (
    ClientStep,
    KeyAgreement,
    Quorum,
    Scheme,
    ShardKeys,
    ShardRound,
    Summation,
)
from f2ed.protocol.secagg.terms import Terms, bind_epoch
from f2ed.protocol.sharding import ClientId

__all__ = ["AllOrNothing"]


@final
class AllOrNothing(Scheme):
    """Opens the sum of all members or none."""

    mode: ClassVar[Literal["all-or-nothing"]] = "all-or-nothing"
    keeps_keys: ClassVar[bool] = True
    steps: ClassVar[Mapping[type[Request], ClientStep]] = {
        AskKey: give_key,
        AskWraps: wrap_secrets,
        AskChains: begin_chains,
        AskUpload: upload,
    }

    def quorum(self, members: int, colluders: int = 0) -> Quorum:  # noqa: ARG002  it takes all of them anyway
        """Return all members."""
        return Quorum(members, members)

    def agree_on_keys(
        self, terms: Terms, roster: Mapping[ClientId, bytes], dropped: dict[ClientId, str]
    ) -> KeyAgreement:
        """Ask every member for its keys, and for a ciphertext to about half of the others; all must give theirs."""
        context = bind_epoch(terms, roster, terms.round)
        seen: set[bytes] = set()

        def take_key(client: ClientId, reply: bytes) -> SignedKey:
            message = read_reply(SignedKey, reply)
            if message.client != client:
                raise PeerError(f"a key in the name of client {message.client}")
            verify(roster[client], pairs.key_text(context, message), message.signature)
            check_public_keys(PublicKeys(message.key, message.kem), terms.agreement)
            if message.key in seen:
                raise PeerError("the same key as another member")
            seen.add(message.key)
            return message

        ask = write(AskKey(terms))
        keys = yield from gather("key", dict.fromkeys(terms.members, ask), take_key, dropped)
        _require_all("gave no usable key", terms, keys)
        keyset = pairs.keyset_digest(tuple(keys.values()))

        def take_wraps(client: ClientId, reply: bytes) -> Wraps:
            message = read_reply(Wraps, reply)
            _check_wraps(message, client, terms)
            digests = [digest(each) for each in message.ciphertexts]
            verify(roster[client], pairs.wraps_text(context, keyset, client, digests), message.signature)
            return message

        ask = write(AskWraps(terms, tuple(keys.values())))
        wraps = yield from gather("ciphertexts", dict.fromkeys(terms.members, ask), take_wraps, dropped)
        _require_all("gave no usable ciphertexts", terms, wraps)

        def take_ready(client: ClientId, reply: bytes) -> None:  # noqa: ARG001  the signature that `gather` calls
            if read_reply(Ready, reply).keyset != keyset:
                raise PeerError("it is ready with other keys")

        asks = {client: write(AskChains(terms, each)) for client, each in _delivered(terms, wraps).items()}
        _require_all("have no chains", terms, (yield from gather("chains", asks, take_ready, dropped)))
        return ShardKeys(terms.round, keyset)

    def add(self, shard: ShardRound) -> Summation:
        """Add the uploads: only those of all members together have masks that cancel."""
        adder = Adder(shard.terms, shard.context, zeros=shard.zeros)
        ask = write(AskUpload(shard.terms, *shard.keys))
        uploaded = yield from gather("upload", dict.fromkeys(shard.terms.members, ask), adder.take, shard.dropped)
        _require_all("uploaded nothing usable", shard.terms, uploaded)
        return tuple(uploaded), adder.total


def _check_wraps(message: Wraps, client: ClientId, terms: Terms) -> None:
    if message.client != client:
        raise PeerError(f"ciphertexts in the name of client {message.client}")
    size = CIPHERTEXT_BYTES if terms.agreement == HYBRID else 0
    if [len(each) for each in message.ciphertexts] != [size] * len(pairs.recipients(terms.members, client)):
        raise PeerError("not exactly one ciphertext for each member that it sends one")


def _delivered(terms: Terms, wraps: Mapping[ClientId, Wraps]) -> dict[ClientId, tuple[Wrap, ...]]:
    """Return the ciphertexts by recipient, in the order of their senders."""
    found: dict[ClientId, tuple[Wrap, ...]] = dict.fromkeys(terms.members, ())
    for sender, message in wraps.items():
        digests = tuple(digest(each) for each in message.ciphertexts)
        for recipient, each in zip(pairs.recipients(terms.members, sender), message.ciphertexts, strict=True):
            found[recipient] += (Wrap(sender, each, digests, message.signature),)
    return found


def _require_all(what: str, terms: Terms, clients: Mapping[ClientId, object]) -> None:
    if missing := set(terms.members) - clients.keys():
        raise PeerError(
            f"{len(missing)} of {len(terms.members)} members {what} (client {name_some(missing)}); "
            f"in {AllOrNothing.mode} mode the sum stays closed"
        )
