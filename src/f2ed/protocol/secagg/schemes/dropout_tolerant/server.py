"""The server's side, step by step."""

from collections.abc import Generator, Mapping
from typing import TypeVar

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import agreement, check_exchange_key, public_exchange_key, same, verify
from f2ed.protocol.secagg import shamir
from f2ed.protocol.secagg.gather import Adder, Replies, Requests, gather, name_some
from f2ed.protocol.secagg.keys import pair_mask
from f2ed.protocol.secagg.masks import Mask, add_masks
from f2ed.protocol.secagg.messages import in_order, read_reply, write
from f2ed.protocol.secagg.schemes.base import ShardRound, Summation
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Confirmation,
    Confirmations,
    Delivery,
    Invite,
    Parcel,
    Peers,
    Reveal,
    Shares,
)
from f2ed.protocol.secagg.terms import place, torn
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
        self._threads = shard.threads

    def run(self) -> Summation:
        """Return the survivors and their sum; raise `PeerError` with the reason if it stays closed."""
        peers = yield from self._advertise()
        shares = yield from self._share(peers)
        adder = Adder(self._terms, self._context, groups=self._terms.groups)
        alive = yield from self._upload(shares, adder)
        revealed = yield from self._unmask(alive, shares)
        add_masks(adder.total, self._remaining_masks(alive, peers, shares, revealed), threads=self._threads)
        return alive, adder.total

    def _advertise(self) -> Generator[Requests, Replies, dict[ClientId, Advertisement]]:
        seen: set[bytes] = set()

        def take(client: ClientId, reply: bytes) -> Advertisement:
            message = read_reply(Advertisement, reply)
            if message.client != client:
                raise PeerError(f"keys in the name of client {message.client}")
            verify(self._roster[client], keys.advertisement_text(self._context, message), message.signature)
            fresh = {message.channel, message.mask}
            for key in fresh:
                check_exchange_key(key)
            if len(fresh) != 2 or fresh & seen:
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
            return message

        ask = write(Peers(tuple(peers.values())))
        shares = yield from gather("shares", dict.fromkeys(peers, ask), take, self._dropped)
        return self._whole("shared their secrets", shares)

    def _upload(
        self, shares: Mapping[ClientId, Shares], adder: Adder
    ) -> Generator[Requests, Replies, tuple[ClientId, ...]]:
        boxes: dict[ClientId, list[Parcel]] = {client: [] for client in shares}
        for message in shares.values():
            for parcel in message.parcels:
                if parcel.recipient in boxes:
                    boxes[parcel.recipient].append(parcel)
        requests = {client: write(Delivery(tuple(box))) for client, box in boxes.items()}
        uploaded = yield from gather("upload", requests, adder.take, self._dropped)
        return tuple(self._whole("uploaded", uploaded))

    def _unmask(
        self, alive: tuple[ClientId, ...], shares: Mapping[ClientId, Shares]
    ) -> Generator[Requests, Replies, dict[ClientId, dict[ClientId, int]]]:
        """Return the share of each dealer that each client revealed."""
        requests = yield from self._confirm(dict.fromkeys(alive, write(Alive(alive))), alive)
        kinds = {dealer: b"seed" if dealer in alive else b"mask" for dealer in shares}
        commitments = _commitments(kinds, shares)

        def take(client: ClientId, reply: bytes) -> dict[ClientId, int]:
            message = read_reply(Reveal, reply)
            in_order("revealed shares", [each.dealer for each in message.shares])
            if {each.dealer for each in message.shares} != shares.keys():
                raise PeerError("shares that are not exactly one per member who shared")
            for each in message.shares:
                kind, committed = kinds[each.dealer], commitments[each.dealer, client]
                if not same(keys.share_commitment(self._context, kind, each.dealer, client, each.share), committed):
                    raise PeerError(f"a share of client {each.dealer} that does not match its commitment")
            return {each.dealer: int.from_bytes(each.share, "big") for each in message.shares}

        revealed = yield from gather("unmasking", requests, take, self._dropped)
        self._require("revealed their shares", len(revealed), self._terms.threshold)
        return revealed

    def _confirm(self, requests: Requests, alive: tuple[ClientId, ...]) -> Generator[Requests, Replies, Requests]:
        text = keys.alive_text(self._context, alive)

        def take(client: ClientId, reply: bytes) -> Confirmation:
            message = read_reply(Confirmation, reply)
            if message.client != client:
                raise PeerError(f"a confirmation in the name of client {message.client}")
            verify(self._roster[client], text, message.signature)
            return message

        confirmed = yield from gather("confirmation", requests, take, self._dropped)
        self._require("confirmed who is alive", len(confirmed), self._terms.threshold)
        return dict.fromkeys(confirmed, write(Confirmations(tuple(confirmed.values()))))

    def _remaining_masks(
        self,
        alive: tuple[ClientId, ...],
        peers: Mapping[ClientId, Advertisement],
        shares: Mapping[ClientId, Shares],
        revealed: Mapping[ClientId, Mapping[ClientId, int]],
    ) -> list[Mask]:
        """Return the masks that did not cancel, with the sign that removes them."""
        revealers = {client: place(self._terms, client) for client in list(revealed)[: self._terms.threshold]}
        masks = []
        for dealer in shares:
            received = {x: revealed[client][dealer] for client, x in revealers.items()}
            secret = self._rebuild(dealer, received, peers[dealer], alive=dealer in alive)
            if dealer in alive:
                masks.append(keys.seed_mask(self._context, dealer, secret)._replace(negative=True))
            else:
                # The dropped client would have applied its half of each pair; applying it now cancels the other half.
                agree = agreement(secret)
                masks += [pair_mask(self._context, agree(peers[peer].mask), dealer, peer) for peer in alive]
        return masks

    def _rebuild(
        self, dealer: ClientId, received: Mapping[int, int], advertised: Advertisement, *, alive: bool
    ) -> bytes:
        """Return a dealer's seed or mask key, checked against what it advertised."""
        number = shamir.combine(received)
        if number < 2**256:
            secret = number.to_bytes(32, "big")
            if alive and same(keys.seed_commitment(self._context, dealer, secret), advertised.commitment):
                return secret
            if not alive and same(public_exchange_key(secret), advertised.mask):
                return secret
        raise PeerError(f"the secret of client {dealer} cannot be rebuilt: the shares that it sent are inconsistent")

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
    found = {
        (dealer, parcel.recipient): parcel.seed if kinds[dealer] == b"seed" else parcel.mask
        for dealer, message in shares.items()
        for parcel in message.parcels
    }
    return found | {(dealer, dealer): message.own for dealer, message in shares.items()}
