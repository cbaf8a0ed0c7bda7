"""A backdoor that stays within what honest updates differ by, without knowledge of the rule."""

from f2ed.attacks._common.backdoor import SquareBackdoor
from f2ed.attacks._common.directions import unit
from f2ed.attacks._common.training import MaliciousClients
from f2ed.attacks.base import Positive
from f2ed.core.arrays import Array, namespace

__all__ = ["QuietBackdoor"]


class QuietBackdoor(SquareBackdoor, frozen=True, kw_only=True, tag="quiet-backdoor"):
    """Send the update of honest training, and a small step toward the poisoned one, the same for all.

    Each malicious row is an honest one but for that step, whose length is `reach` times what the malicious clients' own
    honest updates differ by from their mean. So no row stands out, and that these rows agree shows only if the sum of
    their inner products exceeds what it is among honest rows by chance. It needs no knowledge of other clients, of the
    shards or of the rule. A single malicious client takes the length of its own honest update instead.
    """

    title = "Quiet backdoor"
    family = "backdoor"
    paper = "after Baruch et al., NeurIPS 2019"

    reach: Positive = 0.2

    def train(self, clients: MaliciousClients) -> Array:
        """Train twice, on clean and on poisoned data, and combine."""
        honest = clients.train(clients.data)
        poisoned = clients.train(self.poison(clients), overrides=self.overrides)
        away = honest - honest.mean(0) if len(honest) > 1 else honest
        xp = namespace(away)
        # The mean is that of the same few rows: they are nearer to it than to that of all clients.
        few = len(honest) / max(len(honest) - 1, 1)
        length = float(xp.sqrt(xp.einsum("ij,ij->i", away, away).mean() * few))
        return honest + self.reach * length * unit(poisoned.mean(0) - honest.mean(0))
