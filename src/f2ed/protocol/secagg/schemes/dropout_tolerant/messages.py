"""The messages of the dropout-tolerant scheme; U1 ⊇ U2 ⊇ U3 are who finished advertising, sharing and uploading."""

from typing import Annotated, ClassVar, final

from msgspec import Meta

from f2ed.protocol.secagg.messages import Ciphertext, KemKey, Key, Message, Opening, Request, Several, Signature, Tag
from f2ed.protocol.secagg.shamir import SHARE_BYTES
from f2ed.protocol.secagg.terms import Id

__all__ = [
    "COMMITMENT_BYTES",
    "Advertisement",
    "Alive",
    "Complaint",
    "Confirmation",
    "Confirmations",
    "Delivery",
    "Invite",
    "Link",
    "Parcel",
    "Peers",
    "Reveal",
    "Share",
    "Shares",
    "SignedParcel",
    "TolerantUpload",
]

COMMITMENT_BYTES = 16

_Commitment = Annotated[bytes, Meta(min_length=COMMITMENT_BYTES, max_length=COMMITMENT_BYTES)]
_Sealed = Annotated[bytes, Meta(min_length=2 * SHARE_BYTES + 16, max_length=2 * SHARE_BYTES + 16)]
_ShareBytes = Annotated[bytes, Meta(min_length=SHARE_BYTES, max_length=SHARE_BYTES)]


# Replies and their parts.


@final
class Advertisement(Message, frozen=True, tag="advertise"):
    """Reply to `Invite`: this round's keys and the commitment to the self seed, signed under the round's context.

    Where X25519 is used alone, there are no ML-KEM keys.
    """

    client: Id
    channel: Key
    mask: Key
    channel_kem: KemKey
    mask_kem: KemKey
    commitment: Key
    signature: Signature


@final
class Link(Message, frozen=True):
    """The ML-KEM secret of a pair's masks: for its recipient, wrapped for whoever rebuilds its sender, committed to."""

    ciphertext: Ciphertext
    wrapped: Key
    commitment: Key


@final
class Parcel(Message, frozen=True):
    """Two shares sealed for one peer, and a commitment to each.

    Half of SHA-256 suffices: to reveal another share takes a second preimage, not a collision.
    """

    dealer: Id
    recipient: Id
    sealed: _Sealed
    mask: _Commitment
    seed: _Commitment
    ciphertext: Ciphertext = b""
    """From which the recipient finds the key that seals the shares."""
    link: Link | None = None
    """From the member of the pair that sends it, where keys are hybrid."""


@final
class Shares(Message, frozen=True, tag="share"):
    """Reply to `Peers`: a parcel for every other member, and one signature over all of them."""

    parcels: Annotated[tuple[Parcel, ...], Several]
    signature: Signature


@final
class SignedParcel(Message, frozen=True):
    """A parcel as it is delivered: the path leads to the root of all parcels of its dealer, which the dealer signed."""

    parcel: Parcel
    path: Annotated[tuple[Key, ...], Meta(max_length=12)]
    signature: Signature


@final
class Complaint(Message, frozen=True):
    """A recipient's signed word that a parcel, which its dealer signed, does not hold what it should."""

    client: Id
    dealer: Id
    parcel: Key
    """The digest of the parcel."""
    signature: Signature
    unlinked: bool = False
    """Whether the link could not be used either: the upload is then without the masks of this pair."""


@final
class TolerantUpload(Message, frozen=True, tag="tolerant-upload"):
    """Reply to `Delivery`: the vector, and a complaint about each parcel that could not be used."""

    tag: Tag
    payload: memoryview
    complaints: Annotated[tuple[Complaint, ...], Several] = ()


@final
class Confirmation(Message, frozen=True, tag="confirm"):
    """Reply to `Alive`: a signature on the list of who is alive."""

    client: Id
    signature: Signature


@final
class Share(Message, frozen=True):
    """One share of one secret of one dealer; which secret follows from whether the dealer is alive."""

    dealer: Id
    share: _ShareBytes


@final
class Reveal(Message, frozen=True, tag="reveal"):
    """Reply to `Confirmations`: the client's own seed, and a share of each other dealer that it has no dispute with."""

    seed: Key
    shares: Annotated[tuple[Share, ...], Several]


# Requests.


@final
class Invite(Opening, frozen=True, tag="invite"):
    """Step 0."""

    announces_model: ClassVar[bool] = True


@final
class Peers(Request, frozen=True, tag="peers"):
    """Step 1: who advertised (U1)."""

    advertisements: Annotated[tuple[Advertisement, ...], Several]


@final
class Delivery(Request, frozen=True, tag="delivery"):
    """Step 2: the parcels addressed to one client; their dealers and the client itself are U2."""

    asks_update: ClassVar[bool] = True

    parcels: Annotated[tuple[SignedParcel, ...], Several]


@final
class Alive(Request, frozen=True, tag="alive"):
    """Step 3: whose uploads arrived (U3). The others of U2 are dropped, so no client can be listed as both."""

    clients: Annotated[tuple[Id, ...], Several]


@final
class Confirmations(Request, frozen=True, tag="confirmations"):
    """Step 4: the signatures on U3."""

    signatures: Annotated[tuple[Confirmation, ...], Several]
