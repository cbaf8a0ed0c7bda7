"""The server's side, step by step."""

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TypeVar

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import same, verify
from f2ed.protocol.primitives.hybrid import CIPHERTEXT_BYTES, HYBRID, check_public_keys
from f2ed.protocol.secagg.gather import Adder, Replies, Requests, gather, name_some
from f2ed.protocol.secagg.masks import add_masks
from f2ed.protocol.secagg.messages import in_order, read_reply, write
from f2ed.protocol.secagg.schemes.base import ShardRound, Summation
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, links, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import Deals
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Complaint,
    Confirmation,
    Confirmations,
    Delivery,
    Invite,
    Parcel,
    Peers,
    Reveal,
    Shares,
    TolerantUpload,
)
from f2ed.protocol.secagg.schemes.dropout_tolerant.unmasking import Unmasking
from f2ed.protocol.secagg.terms import torn
from f2ed.protocol.sharding import ClientId

__all__ = ["DropoutTolerantServer"]

Reply = TypeVar("Reply")


class DropoutTolerantServer:
    """One round in one shard, step by step."""

    def __init__(self, shard: ShardRound) -> None:
        self._terms = shard.terms
        self._roster = shard.roster
        self._context = shard.context
        self._dropped = shard.dropped
        self._blame = shard.blame
        self._threads = shard.threads
        self._zeros = shard.zeros

    def run(self) -> Summation:
        """Return the survivors and their sum; raise `PeerError` with the reason if it stays closed."""
        peers = yield from self._advertise()
        shares = yield from self._share(peers)
        deals = Deals(self._context, peers, shares)
        tag = keys.upload_tag(self._context, deals.view())
        adder = Adder(self._terms, tag, groups=self._terms.groups, zeros=self._zeros)
        alive, complaints = yield from self._upload(deals, adder)
        self._convict(deals, complaints)
        disputed = {(each.client, each.dealer) for each in complaints}
        unlinked = self._unlinked(complaints, alive)
        requests = yield from self._confirm(alive, deals.view())
        revealed = yield from self._reveal(requests, alive, peers, shares, disputed)
        masks = Unmasking(self._terms, deals, peers, alive, self._blame).masks(revealed, unlinked)
        add_masks(adder.total, masks, threads=self._threads)
        return alive, adder.total

    def _advertise(self) -> Generator[Requests, Replies, dict[ClientId, Advertisement]]:
        seen: set[bytes] = set()

        def take(client: ClientId, reply: bytes) -> Advertisement:
            message = read_reply(Advertisement, reply)
            if message.client != client:
                raise PeerError(f"keys in the name of client {message.client}")
            verify(self._roster[client], keys.advertisement_text(self._context, message), message.signature)
            for pair in links.public_keys(message):
                check_public_keys(pair, self._terms.agreement)
            published = [key for pair in links.public_keys(message) for key in pair if key]
            fresh = set(published)
            if len(fresh) != len(published) or fresh & seen:
                raise PeerError("a key that occurs twice in the shard")
            seen.update(fresh)
            return message

        invite = write(Invite(self._terms))
        peers = yield from gather("keys", dict.fromkeys(self._terms.members, invite), take, self._dropped)
        return self._whole("advertised keys", peers)

    def _share(self, peers: Mapping[ClientId, Advertisement]) -> Generator[Requests, Replies, dict[ClientId, Shares]]:
        def take(client: ClientId, reply: bytes) -> Shares:
            message = read_reply(Shares, reply)
            destinations = [parcel.recipient for parcel in message.parcels]
            if destinations != [peer for peer in peers if peer != client]:
                raise PeerError("shares that are not addressed to exactly the other members who advertised")
            if any(parcel.dealer != client for parcel in message.parcels):
                raise PeerError("a share in the name of another client")
            for parcel in message.parcels:
                self._check_link(parcel, peers)
            root = merkle.root_of([keys.parcel_digest(parcel) for parcel in message.parcels])
            verify(self._roster[client], keys.parcels_text(self._context, client, advertised, root), message.signature)
            return message

        advertised = keys.advertised_digest(peers.values())
        ask = write(Peers(tuple(peers.values())))
        shares = yield from gather("shares", dict.fromkeys(peers, ask), take, self._dropped)
        return self._whole("shared their secrets", shares)

    def _check_link(self, parcel: Parcel, peers: Mapping[ClientId, Advertisement]) -> None:
        """Drop a dealer that sends ciphertexts where there should be none, or none where there should be one."""
        pair = links.pair_of(self._terms, peers[parcel.dealer], peers[parcel.recipient])
        size = CIPHERTEXT_BYTES if self._terms.agreement == HYBRID else 0
        wanted = size if pair.linked and pair.sender.client == parcel.dealer else 0
        if len(parcel.ciphertext) != size or (len(parcel.link.ciphertext) if parcel.link else 0) != wanted:
            raise PeerError(f"a parcel whose ciphertexts are not those of the agreement {self._terms.agreement!r}")

    def _upload(
        self, deals: Deals, adder: Adder
    ) -> Generator[Requests, Replies, tuple[tuple[ClientId, ...], list[Complaint]]]:
        complaints: list[Complaint] = []

        def take(client: ClientId, reply: bytes) -> None:
            message = read_reply(TolerantUpload, reply, payload=adder.payload)
            in_order("complaints", [each.dealer for each in message.complaints])
            for each in message.complaints:
                self._check_complaint(each, client, deals)
            adder.add(client, message.tag, message.payload)
            complaints.extend(message.complaints)

        requests = {client: write(Delivery(deals.delivery(client))) for client in deals.shares}
        uploaded = yield from gather("upload", requests, take, self._dropped)
        return tuple(self._whole("uploaded", uploaded)), complaints

    def _check_complaint(self, complaint: Complaint, client: ClientId, deals: Deals) -> None:
        if complaint.client != client or complaint.dealer not in deals.shares.keys() - {client}:
            raise PeerError("a complaint in the name of another client, or about one who dealt nothing to it")
        if not same(complaint.parcel, deals.leaf(complaint.dealer, client)):
            raise PeerError(f"a complaint about another parcel than the one from client {complaint.dealer}")
        if complaint.unlinked and deals.link(complaint.dealer, client) is None:
            raise PeerError(f"a complaint about a ciphertext that client {complaint.dealer} did not have to send")
        verify(self._roster[client], keys.complaint_text(self._context, complaint), complaint.signature)

    def _unlinked(self, complaints: Sequence[Complaint], alive: Collection[ClientId]) -> set[tuple[ClientId, ClientId]]:
        """Return the pairs whose masks are in no upload; a pair that is alive has them in one, so that no sum opens."""
        left_out = {(each.dealer, each.client) for each in complaints if each.unlinked and each.client in alive}
        if both := sorted(pair for pair in left_out if pair[0] in alive):
            raise PeerError(
                f"the masks of client {both[0][0]} and client {both[0][1]} do not cancel: one of them lies about the "
                "ciphertext between them"
            )
        return left_out

    def _convict(self, deals: Deals, complaints: Sequence[Complaint]) -> None:
        """Record who is guilty. Its upload is in this sum already; it is for the server to ask it no more."""
        for blame in deals.judge(complaints, self._terms.colluders):
            self._blame.append(blame)
            if blame.fault == "disputes":
                self._dropped[blame.clients[0]] = f"convicted by evidence: {blame.reason}"

    def _confirm(self, alive: tuple[ClientId, ...], view: bytes) -> Generator[Requests, Replies, Requests]:
        text = keys.alive_text(self._context, view, alive)

        def take(client: ClientId, reply: bytes) -> Confirmation:
            message = read_reply(Confirmation, reply)
            if message.client != client:
                raise PeerError(f"a confirmation in the name of client {message.client}")
            verify(self._roster[client], text, message.signature)
            return message

        asked = dict.fromkeys(alive, write(Alive(alive)))
        confirmed = yield from gather("confirmation", asked, take, self._dropped)
        self._require("confirmed who is alive", len(confirmed), self._terms.threshold)
        return dict.fromkeys(confirmed, write(Confirmations(tuple(confirmed.values()))))

    def _reveal(
        self,
        requests: Requests,
        alive: tuple[ClientId, ...],
        peers: Mapping[ClientId, Advertisement],
        shares: Mapping[ClientId, Shares],
        disputed: Collection[tuple[ClientId, ClientId]],
    ) -> Generator[Requests, Replies, dict[ClientId, Reveal]]:
        """Return what each client revealed: its own seed, and one share of each other dealer."""
        kinds = {dealer: b"seed" if dealer in alive else b"mask" for dealer in shares}
        commitments = _commitments(kinds, shares)

        def take(client: ClientId, reply: bytes) -> Reveal:
            message = read_reply(Reveal, reply)
            if not same(keys.seed_commitment(self._context, client, message.seed), peers[client].commitment):
                raise PeerError("a seed that does not match its commitment")
            wanted = [dealer for dealer in shares if dealer != client and (client, dealer) not in disputed]
            if [each.dealer for each in message.shares] != wanted:
                raise PeerError("shares that are not exactly one per member who shared")
            for each in message.shares:
                kind, committed = kinds[each.dealer], commitments[each.dealer, client]
                if not same(keys.share_commitment(self._context, kind, each.dealer, client, each.share), committed):
                    raise PeerError(f"a share of client {each.dealer} that does not match its commitment")
            return message

        revealed = yield from gather("unmasking", requests, take, self._dropped)
        self._require("revealed their shares", len(revealed), self._terms.threshold)
        return revealed

    def _whole(self, did: str, clients: Mapping[ClientId, Reply]) -> dict[ClientId, Reply]:
        """Return the clients whose group is complete, who must be enough; the others are dropped with their group."""
        lost = torn(self._terms, clients)
        self._dropped.update(dict.fromkeys(lost, f"a member of its group has not {did}, and a sum takes whole groups"))
        whole = {client: reply for client, reply in clients.items() if client not in lost}
        self._require(did, len(whole), self._terms.min_crowd)
        return whole

    def _require(self, did: str, count: int, needed: int) -> None:
        if count < needed:
            who = name_some(self._dropped) or "none"
            raise PeerError(
                f"{count} of {len(self._terms.members)} members {did}, and it takes {needed}; dropped: client {who}"
            )


def _commitments(
    kinds: Mapping[ClientId, bytes], shares: Mapping[ClientId, Shares]
) -> dict[tuple[ClientId, ClientId], bytes]:
    """Return the commitment to the one share that is to be revealed now, by (dealer, recipient)."""
    return {
        (dealer, parcel.recipient): parcel.seed if kinds[dealer] == b"seed" else parcel.mask
        for dealer, message in shares.items()
        for parcel in message.parcels
    }
