"""The audit line of a round: what an operator reads, and what a program can."""

import time
from pathlib import Path
from typing import final

import msgspec

from f2ed.core import files
from f2ed.estimators import Estimate
from f2ed.protocol.aggregation import Audit
from f2ed.protocol.sharding import ClientId
from f2ed.records import LeakReading
from f2ed.records.grading import Region

__all__ = ["RoundReport", "append", "report"]


@final
class RoundReport(msgspec.Struct, frozen=True, kw_only=True):
    """One round. It names clients and reasons; it holds nothing of any update."""

    time: str
    job: str
    round: int
    done: bool
    """Whether the model moved."""
    skipped: str | None
    """Why it did not."""
    shards: int
    opened: tuple[int, ...]
    missing: dict[int, str]
    """The shards that stayed closed, and why."""
    dropped: dict[ClientId, str]
    crowd: int
    """The fewest clients in whose sum an update was opened."""
    secret: bool
    malicious: int
    """How many attackers are feared."""
    guarantee: Region
    """Where the worst case falls with the shards that opened."""
    weights: dict[int, float] | None
    """How much each opened shard was believed."""
    clipped: int
    shortened: int
    bytes_up: int
    bytes_down: int
    equations: int
    """How many independent sums the rounds so far have opened, by the leak meter."""
    exposed: int
    """Clients whose own update these determine, as far as it stays the same: 0 with fixed shards that open whole."""
    exposed_since: int | None
    """The round after which the first of them was."""
    epsilon: dict[ClientId, float] | None = None
    """Each client's, over all rounds so far, where the sums carry noise for differential privacy."""
    seconds: float

    def line(self) -> str:
        """Return one line for an operator."""
        what = "the model moved" if self.done else f"SKIPPED, the model stays: {self.skipped}"
        crowd = f", each client hidden among at least {self.crowd}" if self.opened else ""
        secrecy = crowd if self.secret else " IN THE CLEAR"
        doubted = [shard for shard, weight in (self.weights or {}).items() if weight == 0]
        belief = f"; not believed: shard {', '.join(map(str, doubted))}" if doubted else ""
        robust = f"against {self.malicious} malicious: {self.guarantee}" if self.malicious else "no attacker is feared"
        names = "; ".join(f"client {client}: {why}" for client, why in list(self.dropped.items())[:3])
        dropped = f"; {len(self.dropped)} dropped ({names})" if self.dropped else ""
        leaked = f"; ALL ROUNDS TOGETHER GIVE AWAY {self.exposed} CLIENTS" if self.exposed else ""
        private = f"; epsilon at most {max(self.epsilon.values()):.3g}" if self.epsilon else ""
        return (
            f"round {self.round}: {what}; {len(self.opened)} of {self.shards} shards opened{secrecy}{leaked}{private}; "
            f"{robust}{belief}{dropped}; {self.seconds:.1f} s"
        )


def report(
    audit: Audit,
    estimate: Estimate | None,
    *,
    round_: int,
    skipped: str | None,
    errors: dict[ClientId, str],
    malicious: int,
    guarantee: Region,
    meter: LeakReading,
    epsilon: dict[ClientId, float] | None = None,
    seconds: float,
) -> RoundReport:
    """Sum up a round. `errors` knows more than the protocol, which saw only silence."""
    weights = None
    if estimate is not None and estimate.weights is not None:
        weights = {shard: float(weight) for shard, weight in zip(audit.opened, estimate.weights, strict=True)}
    dropped = {client: why for each in audit.shards for client, why in each.dropped.items()}
    return RoundReport(
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        job=audit.job,
        round=round_,
        done=skipped is None,
        skipped=skipped,
        shards=len(audit.shards),
        opened=audit.opened,
        missing=audit.missing,
        dropped={client: errors.get(client, why) for client, why in sorted(dropped.items())},
        crowd=audit.crowd,
        secret=audit.secure,
        malicious=malicious,
        guarantee=guarantee,
        weights=weights,
        clipped=sum(each.clipped for each in audit.shards),
        shortened=sum(each.shortened for each in audit.shards),
        bytes_up=sum(each.bytes_up for each in audit.shards),
        bytes_down=sum(each.bytes_down for each in audit.shards),
        equations=meter.rank,
        exposed=meter.exposed,
        exposed_since=meter.first,
        epsilon=epsilon,
        seconds=seconds,
    )


def append(path: Path, each: RoundReport) -> None:
    """Add the line to a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.append(path, msgspec.json.encode(each) + b"\n")
