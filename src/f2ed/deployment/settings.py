"""The settings of a deployment's server, checked against the signed roster, and the task they set in each round."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, Literal, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.deployment.roster import Roster, round_members, round_task, smallest_sum
from f2ed.estimators import Estimator
from f2ed.guarantees import Guarantee, guarantee
from f2ed.protocol.aggregation import FedAvg, Protocol, ServerOptimizer, Task
from f2ed.protocol.dp import Noise
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg.schemes import Clear
from f2ed.protocol.sharding import ClientId

__all__ = ["FOLLOWED_IN_TESTS", "HELPERS", "ServerSettings", "Stated", "check_roster"]

HELPERS = "helpers"
"""How records name the mode of a run with helpers."""

FOLLOWED_IN_TESTS = ("clip_value", "clip_norm", "bits", "noise_multiplier")
"""What simulated clients take from the server."""


@final
class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same in all rounds of a deployment."""

    roster: Roster
    estimator: Estimator
    encoding: Encoding
    noise: Noise | None
    malicious: int
    """The assumed number of attackers."""
    min_shards: int
    """With fewer open shards a round is skipped."""
    secure: bool
    optimizer: ServerOptimizer = FedAvg()
    """What makes a step of the robust mean."""

    def __post_init__(self) -> None:
        """Refuse an estimator that cannot use the weights of the roster."""
        if len({entry.weight for entry in self.roster.clients}) > 1 and not self.estimator.takes_weights():
            raise ConfigError(
                f"the roster gives its clients different weights, and {self.estimator.title} is not defined for rows "
                "of different weights; use another estimator, such as FilterL2, or sign equal weights"
            )

    @property
    def protocol(self) -> Protocol:
        """How the shards are kept secret: as the roster says."""
        return self.roster.protocol

    @property
    def mode(self) -> str:
        """How the smallest shard is kept secret, as records name it."""
        if self.helped:
            return HELPERS
        return self.protocol.mode_for(self.roster.smallest_shard) if self.secure else Clear.mode

    @property
    def helped(self) -> bool:
        """Whether mixer and judge hide the updates, in place of shards."""
        return bool(self.roster.helpers)

    @property
    def rows(self) -> tuple[tuple[ClientId, ...], ...]:
        """The clients in each row that the estimator sees, in the first round: shards, or single clients."""
        if self.helped:
            return tuple((client,) for client in round_members(self.roster))
        return self.roster.assignment(0).shards

    @property
    def round_rows(self) -> int:
        """The rows of a round, at most."""
        return len(self.rows) if self.helped else self.roster.round_shards

    @property
    def crowd(self) -> int:
        """The minimum number of clients in a sum that may be opened; 1 in the clear."""
        if not self.secure:
            return 1
        if self.helped:
            return smallest_sum(self.roster)
        return self.protocol.quorum_for(self.mode, self.roster.smallest_shard).min_crowd

    @property
    def names(self) -> dict[ClientId, str]:
        """Every client's name."""
        return {entry.id: entry.name for entry in self.roster.clients}

    def min_crowd_of(self, members: int) -> int:
        """Return how many members of a shard of this size must take part for its sum to be opened."""
        mode = self.protocol.mode_for(members) if self.secure else Clear.mode
        return self.protocol.quorum_for(mode, members).min_crowd

    def guarantee(self, opened: int) -> Guarantee | None:
        """Return what holds with this many open shards; None with none."""
        if not opened:
            return None
        return guarantee(clients=self.roster.round_clients, malicious=self.malicious, shards=opened)

    def bytes_opened(self, coordinates: int) -> int:
        """Return what the sums and means of all shards take, in bytes, if all of them are there at once."""
        shards = self.roster.assignment(0).shards
        word = self.encoding.ring_for(max(map(len, shards))).dtype.itemsize
        return len(shards) * (4 * coordinates + word * self.encoding.length(coordinates))

    def task(self, job: str, round_: int, *, model: bytes, coordinates: int) -> Task:
        """Return what the clients are asked for in a round, counted from 0: as the roster says.

        Only simulated clients, under a test roster, follow another encoding or noise, or sums in the clear.
        """
        task = round_task(self.roster, job, round_, model=model, coordinates=coordinates)
        return msgspec.structs.replace(
            task,
            encoding=self.encoding,
            noise=0.0 if self.noise is None else self.noise.noise_multiplier,
            secure=self.secure,
        )

    def stated(self) -> dict[str, Any]:
        """Return the settings as plain values, for the header of the records; keys and seeds are left out."""
        roster = self.roster
        return {
            "clients": len(roster.clients),
            "malicious": self.malicious,
            "shards": roster.shards,
            "shards_per_round": roster.shards_per_round or None,
            "min_crowd": roster.min_crowd,
            "schedule": msgspec.to_builtins(roster.schedule),
            "estimator": msgspec.to_builtins(self.estimator),
            "encoding": msgspec.to_builtins(self.encoding),
            "protocol": msgspec.to_builtins(self.protocol),
            "dp": msgspec.to_builtins(self.noise),
            "min_shards": self.min_shards,
            "key_rounds": roster.key_rounds,
            "helpers": msgspec.to_builtins(roster.helpers.settings) if roster.helpers else None,
            "secure": self.secure,
            "roster": {"name": roster.name, "serial": roster.serial, "digest": roster.digest.hex()},
            "server_optimizer": msgspec.to_builtins(self.optimizer),
            "buffers": msgspec.to_builtins(roster.array_rules),
            "weights": {entry.name: entry.weight for entry in roster.clients} if roster.weight_cap > 1 else None,
        }


@final
class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller of a server may repeat of the roster; what is left out is the roster's."""

    shards: int | Literal["auto"] = "auto"
    schedule: str = "auto"
    mode: str = "auto"
    key_rounds: int | None = None
    clip_value: float | None = None
    clip_norm: float | None = None
    """Infinity for no limit."""
    bits: int | None = None
    noise_multiplier: float | None = None

    def encoding(self, roster: Roster) -> Encoding:
        """Return how updates are encoded."""
        signed = roster.encoding.to_encoding()
        given = {name: getattr(self, name) for name in ("clip_value", "clip_norm", "bits")}
        return msgspec.structs.replace(signed, **{name: to for name, to in given.items() if to is not None})

    def noise(self, roster: Roster, *, delta: float) -> Noise | None:
        """Return the noise in a shard's sum."""
        multiplier = roster.noise_multiplier if self.noise_multiplier is None else self.noise_multiplier
        if not multiplier:
            return None
        if not isfinite(self.encoding(roster).clip_norm):
            raise ConfigError("noise_multiplier without clip_norm; set it to about the norm of an honest update")
        return Noise(noise_multiplier=multiplier, delta=delta)


def check_roster(roster: Roster, stated: Stated, *, follows: Sequence[str] = ()) -> None:
    """Refuse a draft, and settings that the signed roster contradicts: no client would follow them.

    Simulated clients follow some settings all the same: `follows` names them.
    """
    if not roster.signature:
        raise ConfigError(f"the roster {roster.name!r} is a draft; sign it first: f2ed roster sign")
    encoding = roster.encoding.to_encoding()
    for name, signed, option in (
        ("shards", roster.shards, "--shards"),
        ("schedule", type(roster.schedule).__struct_config__.tag, "--every or --batches, not"),
        ("mode", roster.mode, "--mode"),
        ("key_rounds", roster.key_rounds, "--key-rounds"),
        ("clip_value", encoding.clip_value, "--clip-value"),
        ("clip_norm", encoding.clip_norm, "--clip-norm"),
        ("bits", encoding.bits, "--bits"),
        ("noise_multiplier", roster.noise_multiplier, "--noise-multiplier"),
    ):
        given = getattr(stated, name)
        if name not in follows and given not in (None, "auto", signed):
            raise ConfigError(
                f"{name}={given!r}, and the roster was signed for {signed!r}, which its clients follow; leave it out, "
                f"or sign the roster again with f2ed roster sign {option} {given}"
            )
