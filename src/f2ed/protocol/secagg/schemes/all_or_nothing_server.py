"""The server's side of `all-or-nothing`, and of sums in the clear: it adds what it is sent."""

from collections.abc import Generator, Mapping

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import check_exchange_key, verify
from f2ed.protocol.primitives.ring import Ring, Words
from f2ed.protocol.secagg import keys
from f2ed.protocol.secagg.gather import Replies, Requests, gather, name_some
from f2ed.protocol.secagg.messages import TAG_BYTES, AskKey, AskUpload, SignedKey, Upload, read_reply, write
from f2ed.protocol.secagg.terms import Terms, bind_epoch
from f2ed.protocol.sharding import ClientId

__all__ = ["Adder", "agree_on_keys", "collect"]


class Adder:
    """Adds uploads as they arrive; the total is all it keeps."""

    def __init__(self, terms: Terms, context: bytes) -> None:
        self._ring = Ring(terms.ring)
        self._tag = context[:TAG_BYTES]
        self._payload = terms.length * self._ring.wire_bytes
        self.total: Words = self._ring.zeros(terms.length)

    def take(self, client: ClientId, reply: bytes) -> None:  # noqa: ARG002  every `take` is called alike
        """Add one upload, or say what is wrong with it."""
        upload = read_reply(Upload, reply, payload=self._payload)
        if upload.tag != self._tag:
            raise PeerError("an upload under another context: other terms, another roster or another model")
        self._ring.add_packed(self.total, upload.payload)


def agree_on_keys(
    terms: Terms, roster: Mapping[ClientId, bytes], dropped: dict[ClientId, str]
) -> Generator[Requests, Replies, tuple[SignedKey, ...]]:
    """Ask every member for its key of the epoch; all must give one."""
    context = bind_epoch(terms, roster)
    seen: set[bytes] = set()

    def take(client: ClientId, reply: bytes) -> SignedKey:
        message = read_reply(SignedKey, reply)
        if message.client != client:
            raise PeerError(f"a key in the name of client {message.client}")
        verify(roster[client], keys.epoch_key(context, message), message.signature)
        check_exchange_key(message.key)
        if message.key in seen:
            raise PeerError("the same key as another member")
        seen.add(message.key)
        return message

    ask = write(AskKey(terms))
    given = yield from gather("key", dict.fromkeys(terms.members, ask), take, dropped)
    _all_there("gave no usable key", terms, given)
    return tuple(given.values())


def collect(
    terms: Terms, context: bytes, epoch_keys: tuple[SignedKey, ...], dropped: dict[ClientId, str]
) -> Generator[Requests, Replies, tuple[tuple[ClientId, ...], Words]]:
    """Add the uploads: of all members under masks, which only cancel together; of any number in the clear."""
    adder = Adder(terms, context)
    ask = write(AskUpload(terms, epoch_keys))
    uploaded = yield from gather("upload", dict.fromkeys(terms.members, ask), adder.take, dropped)
    if terms.mode == "all-or-nothing":
        _all_there("uploaded nothing usable", terms, uploaded)
    if not uploaded:
        raise PeerError("no member uploaded")
    return tuple(uploaded), adder.total


def _all_there(what: str, terms: Terms, clients: Mapping[ClientId, object]) -> None:
    if missing := set(terms.members) - clients.keys():
        raise PeerError(
            f"{len(missing)} of {len(terms.members)} members {what} (client {name_some(missing)}); "
            "in all-or-nothing mode the sum stays closed"
        )
