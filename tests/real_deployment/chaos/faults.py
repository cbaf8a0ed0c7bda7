"""The faults of a run, drawn from a seed: what fails, in which round, and when within it."""

from typing import Literal

import msgspec
import numpy as np

OF_A_NODE = (
    "node-killed",
    "executor-killed",
    "app-killed",
    "clock-ahead",
    "clock-behind",
    "disk-full",
    "node-frozen",
)
"""These hit one node. Its agent is a part of the node's process, and dies with it."""
OF_THE_SERVER = (
    "superlink-killed",
    "superexec-killed",
    "serverapp-killed",
    "server-disk-full",
    "database-full",
    "server-clock-ahead",
)
ROTATIONS = ("rotation", "rotation-unannounced")
"""The roster gets a new serial: after the run was stopped, as the manual says, or under it."""
KINDS = (*OF_A_NODE, *OF_THE_SERVER, *ROTATIONS)

SILENT = {"database-full", "superexec-killed"}
"""They may pass without a word: the database may need no room just then, and no run may begin afterwards."""

STEPS = ("AskKey", "AskUpload", "hello")
_LONGEST = 20.0


class Fault(msgspec.Struct, frozen=True):
    """One fault."""

    kind: Literal[KINDS]
    round: int
    """Counted from 1: the fault comes while this round is under way."""
    after: float = 0.0
    """Seconds since the round began."""
    client: int | None = None
    step: str = ""
    """The step in which an app is killed, before it answers."""
    lasts: float = 0.0
    """Seconds, for a fault that ends by itself."""
    ahead: float = 0.0
    """Seconds by which a clock is off."""


def drawn(seed, *, nodes, rounds, per_round=2):
    """Return a plan: every kind at least once, one fault of the server in a round, and several of nodes."""
    least = len(OF_THE_SERVER) + len(ROTATIONS) + 1
    if rounds < least:
        raise ValueError(f"{rounds} rounds are too few for every fault; give {least} or more")
    rng = np.random.default_rng(seed)
    # The first round finishes undisturbed but for its nodes, so that there is something to lose.
    places = rng.permutation(np.arange(2, rounds + 1))
    plan = [
        Fault(kind, int(round_), **_of_the_server(kind, rng))
        for kind, round_ in zip((*OF_THE_SERVER, *_in_order(rng)), places, strict=False)
    ]
    kinds = [*OF_A_NODE, *rng.choice(OF_A_NODE, max(0, per_round * rounds - len(OF_A_NODE)))]
    for place, kind in enumerate(rng.permutation(kinds)):
        plan.append(Fault(str(kind), 1 + place % rounds, client=int(rng.integers(nodes)), **_of_a_node(kind, rng)))
    return sorted(plan, key=lambda fault: (fault.round, fault.after))


def _in_order(rng):
    return rng.permutation(ROTATIONS).tolist()


def _of_the_server(kind, rng):
    after = float(rng.uniform(0, _LONGEST))
    if kind.endswith("full"):
        return {"after": after, "lasts": 40.0}
    return {"after": after, "lasts": 100.0, "ahead": 7200.0} if kind == "server-clock-ahead" else {"after": after}


def _of_a_node(kind, rng):
    after = float(rng.uniform(0, _LONGEST))
    if kind == "app-killed":
        return {"step": str(rng.choice(STEPS))}
    if kind.startswith("clock"):
        off = float(rng.choice([3600.0, 90_000.0, 40 * 86_400.0]))
        return {"after": after, "lasts": 60.0, "ahead": off if kind == "clock-ahead" else -off}
    return {"after": after, "lasts": 40.0 if kind in ("disk-full", "node-frozen") else 0.0}
