"""All sentences about grades, guarantees and privacy: for the terminal, the page, the docs and a deployment's log.

Pure functions from numbers to English. What the numbers are worth is decided in `f2ed.records.grading`; what follows
from whole runs is put together in `f2ed.records.findings`.
"""

from collections.abc import Mapping
from typing import Any

from f2ed.records.grading import grade_dp
from f2ed.records.schema import LeakForecast, LeakReading, NoiseRecord, RoundRecord, RunHeader

__all__ = [
    "contaminated",
    "crowd",
    "dp",
    "ending",
    "forecast",
    "guarantee",
    "guard",
    "helpers",
    "kind",
    "leak",
    "leak_reading",
    "notes",
    "percent",
    "plural",
    "region",
    "round_line",
    "schedule",
    "summary",
]

_REGIONS = {
    "theorem": "below 1/12, where the theorem bounds their influence",
    "experience": "1/12 or more, where there is no theorem, only experience with known attacks",
    "nothing": "half or more, where no estimator can tell which rows are honest",
}
_SCHEDULES = {
    "": "never resharded",
    "fixed": "never resharded",
    "every-round": "resharded every round",
    "every-k-rounds": "resharded every {k} rounds",
    "batches": "groups of {size}, resharded every {k} rounds",
}


def percent(share: float) -> str:
    """Write a share as a percentage, to a tenth."""
    return f"{round(100 * share, 1):g}%"


def plural(count: int, noun: str, many: str = "") -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def kind(settings: object) -> str:
    """Return the kind that a table of settings names, or the name of what it imports; "" where there is none."""
    if isinstance(settings, Mapping):
        if settings.get("kind") == "imported":
            return str(settings.get("factory", "")).rpartition(":")[2]
        return str(settings.get("kind") or settings.get("type") or "")
    return str(settings or "")


def schedule(settings: Mapping[str, Any]) -> str:
    """Return how often clients are assigned to shards again, by the schedule in the settings of a run."""
    table = settings.get("schedule")
    numbers = {"k": "?", "size": "?"} | (dict(table) if isinstance(table, Mapping) else {})
    return _SCHEDULES.get(kind(table), kind(table)).format(**numbers).replace("every 1 rounds", "every round")


def ending(accuracy: float | None, lost: float | None, success: float | None, whose: str = "") -> str:
    """Return how an attacked run ended; `whose` names the estimator it is compared with, if that is another."""
    parts = []
    if accuracy is not None:
        compared = "with no attack-free run to compare with" if lost is None else _points(lost, whose)
        parts.append(f"accuracy {percent(accuracy)}, {compared}")
    if success is not None:
        parts.append(f"the attack succeeds on {percent(success)} of inputs")
    return "; ".join(parts)


def _points(lost: float, whose: str) -> str:
    whose = f"{whose} " if whose else ""
    points = round(abs(lost) * 100, 1)
    if not points:
        return f"the same as {whose}without the attack"
    counted = "1 point" if points == 1 else f"{points:g} points"
    return f"{counted} {'lower' if lost > 0 else 'higher'} than {whose}without the attack"


def region(name: str) -> str:
    """Return what the share of contaminated rows means for the guarantee; `name` is a `grading.Region`."""
    return _REGIONS[name]


def contaminated(malicious: int, rows: int, noun: str = "shards") -> str:
    """Return what this many malicious clients can contaminate in the worst case, each in a row of its own."""
    return (
        f"{plural(malicious, 'malicious client')} can contaminate up to {percent(min(1, malicious / rows))} "
        f"of {rows} {noun}"
    )


def guarantee(malicious: int, rows: int, name: str, noun: str = "shards") -> str:
    """Return which guarantee applies; `name` is the region."""
    return f"{contaminated(malicious, rows, noun)}: {region(name)}"


def crowd(size: int) -> str:
    """Return how well an update is hidden by shards alone."""
    if size <= 1:
        return "no update is hidden from the server"
    return f"every update is hidden in a crowd of at least {plural(size, 'client')}"


def dp(dp_epsilon: float, delta: float | None = None) -> str:
    """Return the differential privacy that is left to the client that has spent most."""
    at = "" if delta is None else f" at delta {delta:g}"
    worth = {"strong": "a strong guarantee", "moderate": "a moderate guarantee", "weak": "no meaningful guarantee"}
    return f"epsilon is at most {dp_epsilon:.3g}{at}, {worth[grade_dp(dp_epsilon)]}"


def leak(found: LeakForecast, *, rounds: int, clients: int) -> str:
    """Return what the sums of this many rounds would reveal."""
    as_among = 1 / found.cosine**2 if found.cosine else float(clients)
    recovered = (
        f"the round-invariant component of an update is recovered with cosine {found.cosine:.2f}, "
        f"as if hidden in a crowd of {as_among:.1f}"
    )
    over = f"Over {plural(rounds, 'round')} the sums determine"
    if not found.exposed:
        return f"{over} no single client and no group smaller than {found.crowd}; {recovered}."
    when = f"the first after {plural(found.first, 'round')}" if found.first else "the first from former groups alone"
    if found.last is not None:
        after = plural(found.last, "round")
        when = f"after {after}" if found.last == found.first else f"{when}, the last after {found.last}"
    everyone = found.ever or clients
    who = "all" if found.exposed == everyone else f"{found.exposed} of"
    former = ", those who left included," if found.ever else ""
    return f"{over} {who} {everyone} clients{former} individually, {when}; {recovered}."


def leak_reading(found: LeakReading, clients: int) -> str:
    """Return what the sums opened so far reveal."""
    if not found.exposed:
        return f"the sums of all rounds determine no single client and no group smaller than {found.crowd}"
    first = f", the first after {plural(found.first, 'round')}" if found.first else ""
    return f"the sums of all rounds determine {found.exposed} of {plural(clients, 'client')}{first}"


def summary(header: RunHeader) -> str:
    """Return the guarantee and the crowd of a run in one sentence."""
    found = header.guarantee
    if not found.get("region"):
        return ""
    return f"{guarantee(found['malicious'], found['shards'], found['region'], 'rows')}; {crowd(header.crowd)}"


def forecast(header: RunHeader) -> str | None:
    """Return the leak forecast of a run; None where there is none."""
    found = header.forecast
    return None if found is None else leak(found, rounds=header.rounds, clients=header.clients)


def notes(header: RunHeader) -> list[str]:
    """Return what a reader should know about how the settings were applied."""
    found = []
    if header.mode == "none":
        found.append("the estimator sees every client's update: without shards there is no secure aggregation")
    elif header.mode == "clear":
        found.append("secure = false: the same integers were summed without masks")
    found += helpers(header)
    malicious, rows = header.guarantee.get("malicious", 0), header.guarantee.get("shards", 0)
    if header.tolerated is not None and header.tolerated < malicious:
        found.append(
            f"the estimator is set to tolerate {header.tolerated} of {rows} rows, fewer than the {malicious} that "
            "malicious clients contaminate in the worst case"
        )
    return found if header.noise is None else [*found, *_noise_notes(header.noise, masked=header.mode != "clear")]


def helpers(header: RunHeader) -> list[str]:
    """Return who learns what with helpers, or would with masks; nothing without helpers."""
    settings = header.settings.get("helpers")
    if not isinstance(settings, Mapping):
        return []
    size, nested = settings.get("size", "?"), settings.get("guard") == "nested"
    over = (
        f"within an epoch of {settings.get('epoch', '?')} rounds the sums shrink by at least {size} clients; over "
        "several epochs they may determine single clients"
        if nested
        else f"over all rounds the sums are over whole groups of at least {size} clients"
    )
    relay = "every masked update" if settings.get("relay") == "full" else "sketches of the masked updates"
    learns = "learns" if header.mode != "clear" else "would learn, with secure = true,"
    who = (
        f"the server {learns} who is in the sum and that one sum; the mixer {learns} who is in the sum, and holds "
        f"{relay}; the judge {learns} the distances between all updates, by name; any two of the three together see "
        "every update"
    )
    return [who, over]


def guard(settings: Mapping[str, Any]) -> str:
    """Return which sums helpers may open over the rounds, in a few words."""
    size = settings.get("size", "?")
    if settings.get("guard") == "nested":
        return f"nested sets, at least {size} fewer, for {settings.get('epoch', '?')} rounds"
    return f"whole groups of at least {size}"


def _noise_notes(noise: NoiseRecord, *, masked: bool) -> list[str]:
    size = (
        f"every shard mean carries noise with a standard deviation of {noise.shard:.3g} per coordinate and a norm of "
        f"{noise.shard_norm:.3g}, where an update's norm is at most {noise.clip_norm:g}; clip counts are withheld, "
        "since they would reveal something"
    )
    meaning = (
        f"epsilon is stated at delta {noise.delta:g} for a client's whole data, against a server that sees what "
        f"was opened and has the help of {plural(noise.colluders, 'shard member')}"
    )
    alone = "summed without masks, each update is protected by its own noise alone: masks would lower epsilon"
    return [size, meaning] if masked else [size, meaning, alone]


def round_line(record: RoundRecord, header: RunHeader) -> str:
    """Return one line about a round, for an operator's log."""
    rows = len(header.shards)
    parts = [f"round {record.round}: " + ("the model moved" if record.skipped is None else "SKIPPED")]
    if record.skipped is not None:
        parts[0] += f", the model stays as it is: {record.skipped}"
    if header.settings.get("helpers"):
        parts.append(f"{rows - len(record.excluded)} of {plural(rows, 'client')} compared, {record.crowd} in the sum")
    else:
        parts.append(f"{rows - len(record.excluded)} of {plural(rows, 'shard')} opened")
    if header.mode in {"clear", "none"}:
        parts.append("IN THE CLEAR, without masks")
    elif record.crowd:
        parts.append(f"crowd of at least {record.crowd}")
    if record.leak is not None and record.leak.exposed:
        parts.append(f"ALL ROUNDS TOGETHER REVEAL {record.leak.exposed} OF {header.clients} CLIENTS")
    if record.max_dp_epsilon is not None:
        parts.append(f"epsilon at most {record.max_dp_epsilon:.3g}")
    if malicious := header.guarantee.get("malicious"):
        parts.append(f"against {malicious} malicious: {record.guarantee}")
    rejected = [str(shard) for shard, weight in enumerate(record.weights or ()) if not weight]
    if rejected := [shard for shard in rejected if int(shard) not in record.excluded]:
        parts.append(f"rejected: shard {', '.join(rejected)}")
    if record.dropped:
        named = "; ".join(f"client {client}: {why}" for client, why in list(record.dropped.items())[:3])
        parts.append(f"{len(record.dropped)} dropped ({named}{'; …' if len(record.dropped) > 3 else ''})")
    return "; ".join([*parts, f"{record.seconds.total:.1f} s"])
