"""The evidence of a round: made by the server, and checked by anyone who knows the terms and the roster."""

from collections.abc import Mapping, Sequence

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import same, verify
from f2ed.protocol.secagg import shamir
from f2ed.protocol.secagg.blame import Blame, ComplaintExhibit, ShareExhibit, distinct, guilty
from f2ed.protocol.secagg.gather import name_some
from f2ed.protocol.secagg.messages import decode, write
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Complaint, Link, Shares, SignedParcel
from f2ed.protocol.secagg.terms import Terms, place
from f2ed.protocol.sharding import ClientId

__all__ = ["Deals", "check_blame"]


class Deals:
    """What every client dealt in a round, with the digests from which evidence is made."""

    def __init__(
        self, context: bytes, peers: Mapping[ClientId, Advertisement], shares: Mapping[ClientId, Shares]
    ) -> None:
        self.context = context
        self.peers = peers
        self.advertised = keys.advertised_digest(peers.values())
        self.shares = shares
        self._leaves = {d: [keys.parcel_digest(parcel) for parcel in each.parcels] for d, each in shares.items()}
        self._paths = {dealer: merkle.paths_of(leaves) for dealer, leaves in self._leaves.items()}
        self._places = {
            dealer: {parcel.recipient: at for at, parcel in enumerate(each.parcels)} for dealer, each in shares.items()
        }

    def root(self, dealer: ClientId) -> bytes:
        """Return the root of a dealer's parcels."""
        return merkle.root_of(self._leaves[dealer])

    def path(self, dealer: ClientId, recipient: ClientId) -> tuple[bytes, ...]:
        """Return the path from one parcel to the root."""
        return self._paths[dealer][self._places[dealer][recipient]]

    def leaf(self, dealer: ClientId, recipient: ClientId) -> bytes:
        """Return the digest of one parcel."""
        return self._leaves[dealer][self._places[dealer][recipient]]

    def link(self, dealer: ClientId, recipient: ClientId) -> Link | None:
        """Return what a dealer sent a recipient for the masks of their pair."""
        return self.shares[dealer].parcels[self._places[dealer][recipient]].link

    def delivery(self, recipient: ClientId) -> tuple[SignedParcel, ...]:
        """Return the parcels that are addressed to one client, as their dealers signed them."""
        return tuple(
            SignedParcel(each.parcels[self._places[dealer][recipient]], self.path(dealer, recipient), each.signature)
            for dealer, each in self.shares.items()
            if dealer != recipient
        )

    def view(self) -> bytes:
        """Return the digest of what all members must have seen alike."""
        dealt = {dealer: (self.root(dealer), each.signature) for dealer, each in self.shares.items()}
        return keys.view_digest(self.advertised, dealt)

    def judge(self, complaints: Sequence[Complaint], colluders: int) -> list[Blame]:
        """Return who is guilty by these complaints, and the disputes that stay open."""
        convicted = guilty([(each.client, each.dealer) for each in complaints], colluders)
        found = [
            self._blame(
                (client,),
                "disputes",
                f"client {client} is in dispute with client {name_some(others)} about parcels, and at most "
                f"{max(colluders, 1)} of them may be lying",
                [each for each in complaints if {each.client, each.dealer} <= others | {client}],
            )
            for client, others in convicted.items()
        ]
        for each in complaints:
            if not {each.client, each.dealer} & convicted.keys():
                reason = f"client {each.client} complains about a parcel of client {each.dealer}: one of them is lying"
                found.append(self._blame((each.client, each.dealer), "disputed", reason, [each]))
        return found

    def inconsistent(self, dealer: ClientId, shares: Mapping[ClientId, bytes]) -> Blame:
        """Return the evidence that a dealer committed to shares that are not those of the secret it advertised."""
        exhibits = []
        for recipient, share in shares.items():
            at = self._places[dealer][recipient]
            parcel = self.shares[dealer].parcels[at]
            pieces = (keys.sealed_digest(parcel), parcel.mask, parcel.seed)
            exhibits.append(
                ShareExhibit(recipient, share, *pieces, at, len(self._leaves[dealer]), self.path(dealer, recipient))
            )
        return Blame(
            clients=(dealer,),
            fault="shares",
            reason=f"client {dealer} dealt shares that do not rebuild the secret that it committed to",
            context=self.context,
            advertised=self.advertised,
            dealt=self.shares[dealer].signature,
            advertisement=write(self.peers[dealer]),
            evidence=tuple(exhibits),
        )

    def _blame(self, clients: tuple[ClientId, ...], fault: str, reason: str, about: Sequence[Complaint]) -> Blame:
        return Blame(
            clients=clients,
            fault="disputes" if fault == "disputes" else "disputed",
            reason=reason,
            context=self.context,
            advertised=self.advertised,
            evidence=tuple(self._exhibit(each) for each in about),
        )

    def _exhibit(self, complaint: Complaint) -> ComplaintExhibit:
        at, leaves = self._places[complaint.dealer][complaint.client], self._leaves[complaint.dealer]
        return ComplaintExhibit(
            complaint.client,
            complaint.dealer,
            complaint.parcel,
            complaint.signature,
            at,
            len(leaves),
            self._paths[complaint.dealer][at],
            self.shares[complaint.dealer].signature,
            complaint.unlinked,
        )


def check_blame(blame: Blame, terms: Terms, roster: Mapping[ClientId, bytes]) -> None:
    """Raise `PeerError` unless the evidence shows what the blame says."""
    named = set(blame.clients)
    for each in blame.evidence:
        named |= {each.recipient} if isinstance(each, ShareExhibit) else {each.client, each.dealer}
    if not blame.evidence or not named <= set(terms.members):
        raise PeerError("a blame without evidence, or about clients that are not in the shard")
    if len(set(blame.clients)) != (2 if blame.fault == "disputed" else 1):
        raise PeerError(f"a fault {blame.fault!r} that blames {len(blame.clients)} clients")
    if blame.fault == "shares":
        _check_shares(blame, terms, roster)
        return
    against: set[ClientId] = set()
    for each in blame.evidence:
        if not isinstance(each, ComplaintExhibit) or not set(blame.clients) & {each.client, each.dealer}:
            raise PeerError("evidence that does not concern whom it blames")
        _check_complaint(blame, each, roster)
        against |= {each.client, each.dealer} - set(blame.clients)
    if blame.fault == "disputes" and len(against) <= max(terms.colluders, 1):
        raise PeerError(f"disputes with {len(against)} others convict nobody while {terms.colluders} may collude")


def _check_complaint(blame: Blame, shown: ComplaintExhibit, roster: Mapping[ClientId, bytes]) -> None:
    complaint = Complaint(shown.client, shown.dealer, shown.parcel, shown.signature, shown.unlinked)
    verify(roster[shown.client], keys.complaint_text(blame.context, complaint), shown.signature)
    root = merkle.root_from(shown.parcel, shown.place, shown.count, shown.path)
    verify(roster[shown.dealer], keys.parcels_text(blame.context, shown.dealer, blame.advertised, root), shown.dealt)


def _check_shares(blame: Blame, terms: Terms, roster: Mapping[ClientId, bytes]) -> None:
    (dealer,) = blame.clients
    advertised = decode((Advertisement,), blame.advertisement)
    if not isinstance(advertised, Advertisement) or advertised.client != dealer:
        raise PeerError(f"evidence about shares of client {dealer} without its advertisement")
    verify(roster[dealer], keys.advertisement_text(blame.context, advertised), advertised.signature)
    shown = [each for each in blame.evidence if isinstance(each, ShareExhibit)]
    distinct("shares", (each.recipient for each in shown))
    if len(shown) != terms.threshold:
        raise PeerError(f"{len(shown)} shares as evidence; {terms.threshold} rebuild a secret")
    kinds = set()
    for each in shown:
        leaf = keys.leaf(each.recipient, each.sealed, each.mask, each.seed)
        root = merkle.root_from(leaf, each.place, each.count, each.path)
        verify(roster[dealer], keys.parcels_text(blame.context, dealer, blame.advertised, root), blame.dealt)
        kinds.add(_kind(blame.context, dealer, each))
    if len(kinds) != 1:
        raise PeerError("evidence that mixes shares of two secrets")
    received = {place(terms, each.recipient): int.from_bytes(each.share, "big") for each in shown}
    if keys.matches(
        blame.context, advertised, shamir.combine(received), alive=kinds == {b"seed"}, kind=terms.agreement
    ):
        raise PeerError(f"the shares of client {dealer} rebuild the secret that it committed to")


def _kind(context: bytes, dealer: ClientId, shown: ShareExhibit) -> bytes:
    for kind, committed in ((b"seed", shown.seed), (b"mask", shown.mask)):
        if same(keys.share_commitment(context, kind, dealer, shown.recipient, shown.share), committed):
            return kind
    raise PeerError("a share as evidence that its dealer did not commit to")
