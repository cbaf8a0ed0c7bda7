"""The masks that did not cancel, from what the survivors revealed."""

from collections.abc import Collection, Mapping

from f2ed.core.errors import PeerError
from f2ed.protocol.secagg import shamir
from f2ed.protocol.secagg.blame import Blame
from f2ed.protocol.secagg.gather import name_some
from f2ed.protocol.secagg.keys import pair_mask
from f2ed.protocol.secagg.masks import Mask
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, links
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import Deals
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Reveal
from f2ed.protocol.secagg.terms import Terms, place
from f2ed.protocol.sharding import ClientId

__all__ = ["Unmasking"]


class Unmasking:
    """Finds the seed of each survivor and the mask key of each dropped member."""

    def __init__(
        self,
        terms: Terms,
        deals: Deals,
        peers: Mapping[ClientId, Advertisement],
        alive: tuple[ClientId, ...],
        blame: list[Blame],
    ) -> None:
        self._terms = terms
        self._deals = deals
        self._peers = peers
        self._alive = alive
        self._blame = blame

    def masks(
        self, revealed: Mapping[ClientId, Reveal], unlinked: Collection[tuple[ClientId, ClientId]] = ()
    ) -> list[Mask]:
        """Return the masks that did not cancel, with the sign that removes them.

        `unlinked` are the pairs (dropped dealer, survivor) whose masks the survivor left out.
        """
        context = self._deals.context
        shares = {client: {each.dealer: each.share for each in reveal.shares} for client, reveal in revealed.items()}
        masks = []
        for dealer in self._deals.shares:
            if dealer in self._alive:
                seed = revealed[dealer].seed if dealer in revealed else self._rebuild(dealer, shares)
                masks.append(keys.seed_mask(context, dealer, seed)._replace(negative=True))
            else:
                # The dropped client would have applied its half of each pair; applying it now cancels the other half.
                secret = links.mask_secret(self._terms, context, dealer, self._rebuild(dealer, shares))
                linked = [peer for peer in self._alive if (dealer, peer) not in unlinked]
                masks += [pair_mask(context, self._root(secret, peer), dealer, peer) for peer in linked]
        return masks

    def _root(self, dropped: links.MaskSecret, peer: ClientId) -> bytes:
        """Return the secret of the masks between a dropped member and a survivor."""
        pair = links.pair_of(self._terms, self._peers[dropped.client], self._peers[peer])
        sender = pair.sender.client
        link = self._deals.link(sender, pair.recipient.client)
        try:
            return links.rebuild(self._deals.context, pair, link, dropped)
        except PeerError as error:
            raise PeerError(
                f"the masks of client {dropped.client} and client {peer} cannot be rebuilt: "
                f"client {sender} sent {error}"
            ) from None

    def _rebuild(self, dealer: ClientId, shares: Mapping[ClientId, Mapping[ClientId, bytes]]) -> bytes:
        """Return a dealer's seed or mask key, checked against what it advertised."""
        threshold = self._terms.threshold
        held = [client for client in shares if dealer in shares[client]]
        if len(held) < threshold:
            others = [client for client in shares if client not in held]
            raise PeerError(
                f"the secret of client {dealer} cannot be rebuilt: {len(held)} members revealed a share of it, and it "
                f"takes {threshold}; client {name_some(others)} got none that could be used"
            )
        received = {client: shares[client][dealer] for client in held[:threshold]}
        number = shamir.combine(
            {place(self._terms, client): int.from_bytes(share, "big") for client, share in received.items()}
        )
        if secret := keys.matches(
            self._deals.context, self._peers[dealer], number, alive=dealer in self._alive, kind=self._terms.agreement
        ):
            return secret
        self._blame.append(self._deals.inconsistent(dealer, received))
        raise PeerError(f"the secret of client {dealer} cannot be rebuilt: the shares that it sent are inconsistent")
