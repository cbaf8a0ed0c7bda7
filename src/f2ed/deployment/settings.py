"""The settings of a deployment's server, checked against the signed roster, and the task they set in each round."""

from typing import Any, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.deployment.roster import Roster
from f2ed.estimators import Estimator
from f2ed.guarantees import Guarantee, guarantee
from f2ed.protocol.aggregation import Protocol, Task
from f2ed.protocol.dp import Noise
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg.schemes import Clear

__all__ = ["ServerSettings", "check_roster"]


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

    @property
    def protocol(self) -> Protocol:
        """How the shards are kept secret: as the roster says."""
        return self.roster.protocol

    @property
    def mode(self) -> str:
        """How the smallest shard is kept secret, as records name it."""
        return self.protocol.mode_for(self.roster.smallest_shard) if self.secure else Clear.mode

    @property
    def crowd(self) -> int:
        """The minimum number of clients in a sum that may be opened; 1 in the clear."""
        if not self.secure:
            return 1
        return self.protocol.quorum_for(self.mode, self.roster.smallest_shard).min_crowd

    def guarantee(self, opened: int) -> Guarantee | None:
        """Return what holds with this many open shards; None with none."""
        if not opened:
            return None
        return guarantee(clients=len(self.roster.clients), malicious=self.malicious, shards=opened)

    def task(self, job: str, round_: int, *, model: bytes, coordinates: int) -> Task:
        """Return what the clients are asked for in a round, counted from 0."""
        return Task(
            job=job,
            round=round_,
            model=model,
            coordinates=coordinates,
            encoding=self.encoding,
            roster=self.roster.keys,
            protocol=self.protocol,
            noise=0.0 if self.noise is None else self.noise.noise_multiplier,
            epoch=self.roster.key_epoch(round_),
            secure=self.secure,
        )

    def stated(self) -> dict[str, Any]:
        """Return the settings as plain values, for the header of the records; keys and seeds are left out."""
        roster = self.roster
        return {
            "clients": len(roster.clients),
            "malicious": self.malicious,
            "shards": roster.shards,
            "min_crowd": roster.min_crowd,
            "schedule": msgspec.to_builtins(roster.schedule),
            "estimator": msgspec.to_builtins(self.estimator),
            "encoding": msgspec.to_builtins(self.encoding),
            "protocol": msgspec.to_builtins(self.protocol),
            "dp": msgspec.to_builtins(self.noise),
            "min_shards": self.min_shards,
            "key_rounds": roster.key_rounds,
            "secure": self.secure,
            "roster": {"name": roster.name, "serial": roster.serial, "digest": roster.digest.hex()},
        }


def check_roster(roster: Roster, shards: int | str, schedule: str, mode: str, key_rounds: int | None) -> None:
    """Refuse a draft, and settings that the signed roster contradicts: no client would follow them."""
    if not roster.signature:
        raise ConfigError(f"the roster {roster.name!r} is a draft; sign it first: f2ed roster sign")
    if shards not in ("auto", roster.shards):
        raise ConfigError(
            f"{shards} shards, and the roster was signed for {roster.shards}; sign it again for another number"
        )
    kind = type(roster.schedule).__struct_config__.tag
    if schedule not in ("auto", kind):
        raise ConfigError(f"the schedule {schedule!r}, and the roster was signed for {kind!r}; sign it again")
    if mode not in ("auto", roster.mode):
        raise ConfigError(
            f"the mode {mode!r}, and the roster was signed for {roster.mode!r}; sign it again with --mode {mode}"
        )
    if key_rounds not in (None, roster.key_rounds):
        raise ConfigError(
            f"keys that last for {key_rounds} rounds, and the roster was signed for {roster.key_rounds}; sign it again "
            f"with --key-rounds {key_rounds}"
        )
