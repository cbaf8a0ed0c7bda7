"""A round of a deployment in one line, for the operator's log."""

from f2ed.deployment.settings import HELPERS
from f2ed.protocol.secagg import scheme_of
from f2ed.protocol.sharding import ClientId
from f2ed.records import Deployed, RoundRecord, RunHeader

__all__ = ["round_line"]


def round_line(header: RunHeader, record: RoundRecord) -> str:
    """Return one line for the operator; rounds count from 1 here, as they do in Flower."""
    moved = "model updated" if record.skipped is None else f"SKIPPED, the model is unchanged: {record.skipped}"
    parts = [f"round {record.round + 1}: {moved}", _opened(header, record)]
    if record.leak is not None and record.leak.exposed:
        parts.append(f"THE ROUNDS SO FAR EXPOSE {record.leak.exposed} CLIENTS")
    if record.max_dp_epsilon is not None:
        parts.append(f"epsilon at most {record.max_dp_epsilon:.3g}")
    malicious = header.guarantee["malicious"]
    parts.append(f"assuming {malicious} malicious: {record.guarantee}" if malicious else "no attacker assumed")
    if record.rejected:
        parts.append(_rejected(header, record))
    if record.clipped or record.shortened:
        parts.append(f"CLIPPED: {record.clipped} coordinates, {record.shortened} updates")
    if record.dropped:
        named = [f"client {each}{_name(header, each)}: {why}" for each, why in list(record.dropped.items())[:3]]
        parts.append(f"{len(record.dropped)} dropped ({'; '.join(named)})")
    deployed = record.deployed or Deployed()
    if deployed.quarantined:
        parts.append(f"in quarantine: client {', '.join(map(str, deployed.quarantined))}")
    if deployed.attempts:
        parts.append(f"after {len(deployed.attempts)} skipped attempts")
    return "; ".join([*parts, f"{record.seconds.total:.1f} s"])


def _opened(header: RunHeader, record: RoundRecord) -> str:
    """Return what was opened, and how well it hides a client."""
    rows = len(header.shards)
    seen = rows - len(record.excluded)
    if header.mode == HELPERS:
        summed = f", the sum of {record.crowd} opened" if record.crowd else ", no sum opened"
        return f"{seen} of {rows} clients compared{summed}"
    crowd = f", every update hidden among at least {record.crowd} clients" if seen else ""
    return f"{seen} of {rows} shards opened{crowd if scheme_of(header.mode).masked else ' IN THE CLEAR'}"


def _rejected(header: RunHeader, record: RoundRecord) -> str:
    if header.mode != HELPERS:
        return f"rejected: shard {', '.join(map(str, record.rejected))}"
    clients = [client for place in record.rejected for client in header.shards[place]]
    return f"left out by the judge: client {', '.join(map(str, clients))}"


def _name(header: RunHeader, client: ClientId) -> str:
    names = header.names or {}
    return f" ({names[client]})" if client in names else ""
