"""What every attack is.

An attack has three sides, each with a default that does nothing: what the malicious clients train on and how
(`train`), what they send, given what that training gave and what they know (calling the attack), and what they
want the model to say (`goal`). A simulation asks for all three without knowing which attack it runs:

    goal = attack.goal(evaluation)                 once
    own = attack.train(clients)                 every round
    sent = attack(view with own)             every round
    goal.success(predictions)                where there is a goal
"""

from typing import Annotated, ClassVar, Literal

import msgspec

from f2ed.attacks._common.goal import EvaluationData, Goal
from f2ed.attacks._common.placement import land
from f2ed.attacks._common.scene import Scene, survey
from f2ed.attacks._common.training import MaliciousClients
from f2ed.attacks._common.view import AttackerView, Knowledge
from f2ed.core.arrays import Array, as_matrix, namespace

__all__ = ["Attack", "Family", "Positive", "Variant"]

Positive = Annotated[float, msgspec.Meta(gt=0.0)]
Family = Literal["untargeted", "targeted", "backdoor", "adaptive"]
Variant = Literal["original", "released"]
"""As the attack's inventors defined it, or as the code released with F2ED-Learning runs it."""


class Attack(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """What the malicious clients of a simulation do: a frozen value whose fields are its settings."""

    title: ClassVar[str]
    """What tables and figures call it."""
    family: ClassVar[Family]
    paper: ClassVar[str]
    """Who proposed it, and when; "after" where it follows the idea rather than the paper's definition."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names of its kind: the abbreviations of the paper."""

    knowledge: Knowledge = "full"
    shard_aware: bool = False
    """Aim at the shard means rather than at the clients: the deal is public."""

    @property
    def trains_honestly(self) -> bool:
        """Whether the malicious clients train as the others do, and so may be trained along with them."""
        return type(self).train is Attack.train

    def goal(self, evaluation: EvaluationData) -> Goal | None:  # noqa: ARG002  an untargeted attack looks at nothing
        """Return what a targeted attack wants; None for one that wants the model to be bad."""
        return None

    def train(self, clients: MaliciousClients) -> Array:
        """Return by how much training moves each malicious client, [m, d]."""
        return clients.train(clients.data)

    def __call__(self, view: AttackerView) -> Array:
        """Return what the malicious clients send, [m, d], of the kind that came in; nothing given in is changed."""
        restore = as_matrix(view.own)[1]
        scene = survey(view, self.knowledge, shard_aware=self.shard_aware)
        targets = _rows(self.craft(scene), scene)
        return restore(land(targets, scene) if self.shard_aware else targets)

    def craft(self, scene: Scene) -> Array:
        """Return the rows the attacker wants to be seen, [m, d], or one [d] for all of them."""
        return scene.own


def _rows(crafted: Array, scene: Scene) -> Array:
    """Give each row memory of its own, in the type of the updates."""
    own = scene.own
    rows = namespace(own).empty((scene.m, scene.d), dtype=own.dtype, device=own.device)
    rows[:] = crafted
    return rows
