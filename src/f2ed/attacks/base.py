"""The attack interface.

An attack has four parts, each with a harmless default: what the malicious clients train on and how (`train`), what
they send, given the result of that training and what they know (calling the attack), which predictions they want from
the model (`goal`), and whether they change what they show the model in every round (`learn`). A simulation uses all of
them without knowing which attack it runs:

    goal = attack.goal(evaluation)           once
    goal = attack.learn(clients with goal)   every round
    own = attack.train(clients)              every round
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
from f2ed.core.errors import PluginError
from f2ed.core.settings import Settings

__all__ = ["Attack", "Family", "Positive", "Variant"]

Positive = Annotated[float, msgspec.Meta(gt=0.0)]
Family = Literal["untargeted", "targeted", "backdoor", "adaptive"]
Variant = Literal["original", "released"]
"""As originally published, or as in the code released with the F2ED-Learning paper."""


class Attack(Settings, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
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
    """Target the shard means instead of the clients; the assignment to shards is public."""

    @property
    def trains_honestly(self) -> bool:
        """Whether the malicious clients train like honest ones, and so can be trained together with them."""
        return type(self).train is Attack.train

    def goal(self, evaluation: EvaluationData) -> Goal | None:  # noqa: ARG002  an untargeted attack needs nothing
        """Return the goal of a targeted attack; None for an untargeted one."""
        return None

    def learn(self, clients: MaliciousClients) -> Goal | None:
        """Return the goal of this round, before training: another one if the attack learns its trigger."""
        return clients.goal

    def train(self, clients: MaliciousClients) -> Array:
        """Return the update that training gives each malicious client, [m, d]."""
        return clients.train(clients.data)

    def __call__(self, view: AttackerView) -> Array:
        """Return what the malicious clients send, [m, d], NumPy or torch like the view; no input is modified."""
        own, restore = as_matrix(view.own)
        if not view.is_finite:  # The model has diverged, and there is nothing left to aim at.
            return restore(own + 0)
        scene = survey(view, self.knowledge, shard_aware=self.shard_aware)
        targets = _rows(type(self).__name__, self.craft(scene), scene)
        return restore(land(targets, scene) if self.shard_aware else targets)

    def craft(self, scene: Scene) -> Array:
        """Return the rows that the server should see, [m, d], or one [d] for all of them."""
        return scene.own


def _rows(attack: str, crafted: Array, scene: Scene) -> Array:
    """Copy each row into its own memory, in the type of the updates."""
    own = scene.own
    if (shape := getattr(crafted, "shape", None)) is None or tuple(shape) not in {
        (scene.m, scene.d),
        (1, scene.d),
        (scene.d,),
    }:
        what = f"an array of shape {tuple(shape)}" if shape is not None else f"a {type(crafted).__name__}"
        raise PluginError(
            f"{attack}.craft returned {what}; it must return an array [{scene.m}, {scene.d}], a row for each malicious "
            f"client, or one row [{scene.d}] for all of them"
        )
    if "complex" in str(crafted.dtype):
        raise PluginError(f"{attack}.craft returned {crafted.dtype} numbers; updates are real")
    rows = namespace(own).empty((scene.m, scene.d), dtype=own.dtype, device=own.device)
    rows[:] = crafted
    return rows
