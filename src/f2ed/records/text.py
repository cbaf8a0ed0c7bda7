"""What records say, in one wording for the terminal and the page: how a run ended, what was promised, what was seen.

An attack is judged at the end of a run:

    held     the accuracy is at most 5 points below that without an attack, and a targeted attack
             gets what it wants in at most 20 % of inputs
    dented   worse than that
    broken   20 points or more are lost, or a targeted attack succeeds in half of the inputs or more

Without a run that nobody attacked there is nothing to compare the accuracy with, and it is not judged.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar, final

import msgspec

from f2ed.records.schema import LeakForecast, LeakReading, NoiseRecord, RoundRecord, RunHeader

__all__ = [
    "LEVELS",
    "Level",
    "Recorded",
    "Remark",
    "by_promise",
    "ending",
    "forecast",
    "graded",
    "kind",
    "leak",
    "notes",
    "percent",
    "plural",
    "privacy",
    "promise",
    "region",
    "schedule",
    "summary",
    "unfinished",
    "upkeep",
]

LOST_LITTLE, LOST_MUCH = 0.05, 0.20
SUCCESS_LITTLE, SUCCESS_MUCH = 0.20, 0.50

Level = Literal["held", "dented", "broken", "unknown"]
LEVELS: tuple[Level, ...] = ("held", "dented", "broken")
"""From good to bad."""


class Recorded(Protocol):
    """What was recorded of a run, however it was read."""

    @property
    def header(self) -> RunHeader:
        """Its header."""
        ...

    @property
    def rounds(self) -> tuple[RoundRecord, ...]:
        """Its rounds, or some of them; the last is there."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the last planned round is there."""
        ...


Runs = Sequence[Recorded]
Some = TypeVar("Some", bound=Recorded)


@final
class Remark(msgspec.Struct, frozen=True):
    """One sentence or two; `level` "note" is neither good nor bad."""

    level: Literal["held", "dented", "broken", "unknown", "note"]
    about: str
    text: str

    @property
    def sentence(self) -> str:
        """What it says, with what it is about."""
        return f"{self.about}: {self.text}"


def percent(share: float) -> str:
    """Write a share as a percentage, to a tenth."""
    return f"{round(100 * share, 1):g}%"


def plural(count: int, noun: str, many: str = "") -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def kind(settings: object) -> str:
    """Return the kind of an attack, an estimator or another table of settings; "" where there is none."""
    if isinstance(settings, dict):
        return str(settings.get("kind") or settings.get("type") or "")
    return str(settings or "")


def schedule(settings: dict[str, Any]) -> str:
    """Return the kind of the schedule, "" where the settings name none."""
    return kind(settings.get("schedule"))


def graded(lost: float | None, success: float | None) -> Level:
    """Judge an attack by the accuracy it costs and by its success, the worse of the two; None is not known."""
    levels = [_level(lost, LOST_LITTLE, LOST_MUCH), _level(success, SUCCESS_LITTLE, SUCCESS_MUCH)]
    known = [level for level in levels if level != "unknown"]
    return max(known, key=LEVELS.index) if known else "unknown"


def _level(found: float | None, little: float, much: float) -> Level:
    if found is None:
        return "unknown"
    return "held" if found <= little else "dented" if found < much else "broken"


def ending(accuracy: float | None, lost: float | None, success: float | None, whose: str = "") -> str:
    """Say how an attacked run ended; `whose` names the rule it is compared with, if that is another."""
    parts = []
    if accuracy is not None:
        compared = "with no run without an attack to compare it with" if lost is None else _points(lost, whose)
        parts.append(f"accuracy {percent(accuracy)}, {compared}")
    if success is not None:
        parts.append(f"the attack succeeds in {percent(success)} of inputs")
    return "; ".join(parts)


def _points(lost: float, whose: str) -> str:
    whose = f"{whose} " if whose else ""
    points = round(abs(lost) * 100, 1)
    if not points:
        return f"as {whose}without the attack"
    counted = "1 point" if points == 1 else f"{points:g} points"
    return f"{counted} {'less' if lost > 0 else 'more'} than {whose}without the attack"


def region(name: str) -> str:
    """Return what the share of contaminated rows means for the guarantee; `name` is a `f2ed.guarantees.Region`."""
    return {
        "theorem": "below 1/12, where the theorem bounds their influence",
        "experience": "1/12 or more, where there is no theorem, only experience with known attacks",
        "nothing": "half or more, where no estimator can tell which rows are honest",
    }[name]


def summary(header: RunHeader) -> str:
    """Return the guarantee and the crowd of a run in one sentence."""
    found = header.guarantee
    if not found.get("region"):
        return ""
    share = (
        f"{found['malicious']} malicious clients can contaminate {found['worst_share']:.0%} of {found['shards']} rows"
    )
    crowd = f"every update is hidden in a crowd of at least {header.crowd}"
    return f"{share}: {region(found['region'])}; {crowd if header.crowd > 1 else 'no update is hidden from the server'}"


def notes(header: RunHeader) -> list[str]:
    """Return what a reader should know about how the settings were applied."""
    found = []
    if header.mode == "none":
        found.append("the estimator sees every client's update: without shards there is no secure aggregation")
    elif header.mode == "clear":
        found.append("secure = false: the same integers were summed without masks")
    malicious, rows = header.guarantee.get("malicious", 0), header.guarantee.get("shards", 0)
    if header.tolerated is not None and header.tolerated < malicious:
        found.append(
            f"the estimator is set to tolerate {header.tolerated} of {rows} rows, fewer than the {malicious} that "
            "malicious clients contaminate in the worst case"
        )
    if header.noise is not None:
        found += _noise_notes(header.noise, masked=header.mode != "clear")
    return found


def _noise_notes(noise: NoiseRecord, *, masked: bool) -> list[str]:
    found = [
        (
            f"every shard mean carries noise of standard deviation {noise.shard:.3g} per coordinate, norm "
            f"{noise.shard_norm:.3g}, where an update has norm at most {noise.clip_norm:g}; clip counts are withheld, "
            "since they would reveal something"
        ),
        (
            f"epsilon is stated at delta {noise.delta:g} for a client's whole data, against a server that sees what "
            f"was opened and has the help of {plural(noise.colluders, 'shard member')}"
        ),
    ]
    if not masked:
        found.append("summed without masks, each update is protected by its own noise alone: masks would lower epsilon")
    return found


def forecast(header: RunHeader) -> str | None:
    """Return the leak forecast in a sentence or two; None where there is none."""
    found = header.forecast
    return None if found is None else leak(found, rounds=header.rounds, clients=header.clients)


def leak(found: LeakForecast, *, rounds: int, clients: int) -> str:
    """Return what the sums of so many rounds reveal."""
    exposed, first, last, crowd, cosine = found.exposed, found.first, found.last, found.crowd, found.cosine
    as_among = 1 / cosine**2 if cosine else float(clients)
    recovered = (
        f"the round-invariant component of an update is recovered with cosine {cosine:.2f}, "
        f"as if hidden in a crowd of {as_among:.1f}"
    )
    if not exposed:
        return (
            f"Over {plural(rounds, 'round')} the sums determine no single client and no group smaller than {crowd}; "
            f"{recovered}."
        )
    when = f"the first after {plural(first or 0, 'round')}"
    if last is not None:
        when = f"after {plural(last, 'round')}" if last == first else f"{when}, the last after {last}"
    who = "all" if exposed == clients else f"{exposed} of"
    return (
        f"Over {plural(rounds, 'round')} the sums determine {who} {clients} clients individually, {when}; {recovered}."
    )


def by_promise(runs: Sequence[Some]) -> list[list[Some]]:
    """Put runs together to which the same guarantee applies."""
    found: dict[tuple[Any, ...], list[Some]] = {}
    for run in runs:
        promised = run.header.guarantee
        key = (*map(promised.get, ("malicious", "shards", "region")), run.header.mode == "none")
        found.setdefault(key, []).append(run)
    return list(found.values())


def promise(runs: Runs, failed: Sequence[str]) -> Remark:
    """Say which guarantee applied to such runs; `failed` are the attacks that broke FilterL2 all the same."""
    promised = runs[0].header.guarantee
    malicious, shards, region = (promised.get(name) for name in ("malicious", "shards", "region"))
    if not region or not shards or malicious is None:
        return Remark("unknown", "Guarantee", "the records do not say which guarantee applied.")
    noun = "updates" if runs[0].header.mode == "none" else "shards"
    spoilt = (
        f"{plural(malicious, 'malicious client')} can spoil {percent(min(1, malicious / shards))} of {shards} {noun}"
    )
    records = [record for run in runs for record in run.rounds]
    worse = sum(record.guarantee not in {"", region, "theorem"} for record in records)
    missing = f" In {worse} of {plural(len(records), 'round')} so many rows were missing that less was promised."
    closed = missing if worse else ""
    if region == "nothing":
        return Remark("broken", "Guarantee", f"none. {spoilt}: half or more, against which no rule can help.{closed}")
    if region != "theorem":
        text = f"none, experience only. {spoilt}; the theorem asks for less than 1/12 (see f2ed plan).{closed}"
        return Remark("dented", "Guarantee", text)
    text = f"the theorem. {spoilt}: less than 1/12, so it bounds what they can do to FilterL2.{closed}"
    if not any(kind(run.header.settings.get("estimator")) == "filter-l2" for run in runs):
        return Remark("note", "Guarantee", f"{text} FilterL2 was not run, and the others have no such theorem.")
    if failed:
        text = f"{text} Broken all the same by {', '.join(failed)}: look at the weights of the shards."
        return Remark("broken", "Guarantee", text)
    return Remark("dented" if worse else "held", "Guarantee", f"{text} It was not broken.")


def privacy(runs: Runs) -> Iterator[Remark]:
    """Say among how many updates were hidden, and what all rounds together gave away."""
    masked = [run for run in runs if run.header.mode not in {"clear", "none", "unknown"}]
    if masked:
        least = min(_hidden_among(run) for run in masked)
        text = f"every update was hidden among at least {plural(least, 'client')}{_which(masked, runs)}."
        yield Remark("held" if least > 1 else "broken", "Privacy", text)
    if bare := [run for run in runs if run.header.mode == "none"]:
        which = _which(bare, runs) or " in every run"
        yield Remark("broken", "Privacy", f"the server saw each update by itself{which}: there were no shards.")
    if clear := [run for run in runs if run.header.mode == "clear"]:
        which = "every run" if len(clear) == len(runs) else f"{len(clear)} of {plural(len(runs), 'run')}"
        yield Remark("note", "Privacy", f"{which} added the same integers in the clear (secure = false), to save time.")
    yield from _over_rounds(runs)
    yield from _noise(runs)


def _noise(runs: Runs) -> Iterator[Remark]:
    """Say what differential privacy the client that has lost most has; above 10 it is no promise to speak of."""
    noisy = [(told, run) for run in runs if run.rounds and (told := run.rounds[-1].max_dp_epsilon) is not None]
    if not noisy:
        return
    worst, run = max(noisy, key=lambda pair: pair[0])
    settings = run.header.settings.get("dp")
    delta = f" at delta {settings['delta']:g}" if isinstance(settings, dict) and "delta" in settings else ""
    worth = "" if worst <= 10 else ", which promises next to nothing"
    text = f"epsilon is at most {worst:.3g}{delta}{_which([one for _, one in noisy], runs)}{worth}."
    yield Remark("held" if worst <= 10 else "note", "Differential privacy", text)


def _over_rounds(runs: Runs) -> Iterator[Remark]:
    """Say what the leak meter read; older records have no meter, and of those only the schedule is known."""
    metered = [(run, meter) for run in runs if (meter := _reading(run)) is not None]
    exposed = [(run, meter) for run, meter in metered if meter.exposed]
    if exposed:
        run, worst = max(exposed, key=lambda pair: pair[1].exposed)
        text = (
            f"the sums of all rounds together determine {worst.exposed} of {plural(run.header.clients, 'client')}, "
            f"the first after {plural(worst.first or 0, 'round')}{_which([one for one, _ in exposed], runs)}."
        )
        yield Remark("broken", "Over the rounds", text)
    elif metered:
        crowd = min(meter.crowd for _, meter in metered)
        text = f"the sums of all rounds together determine no single client, and no group smaller than {crowd}"
        yield Remark("held", "Over the rounds", f"{text}{_which([run for run, _ in metered], runs)}.")
    unmetered = [run for run in runs if run.header.mode not in {"none", "unknown"} and _reading(run) is None]
    if dealt := sum(schedule(run.header.settings) not in {"", "fixed"} for run in unmetered):
        text = "dealt the shards anew, which lets the server compare sums and solve for one client."
        yield Remark("dented", "Over the rounds", f"{plural(dealt, 'run')} {text}")


def _reading(run: Recorded) -> LeakReading | None:
    return run.rounds[-1].leak if run.rounds else None


def upkeep(runs: Runs) -> Iterator[Remark]:
    """Say what an operator may want to put right."""
    if cut := [run for run in runs if any(record.clipped_honest for record in run.rounds)]:
        text = f"honest updates were cut off{_which(cut, runs)}: raise clip_value, or lower the learning rate."
        yield Remark("dented", "Clipping", text)
    records = [record for run in runs for record in run.rounds]
    if closed := sum(bool(record.excluded) for record in records):
        text = f"in {closed} of {plural(len(records), 'round')} some rows had no say; the records say why."
        yield Remark("note", "Left out", text)


def unfinished(runs: Runs) -> Iterator[Remark]:
    """Say how many runs are not at their end."""
    done = sum(run.finished for run in runs)
    if done < len(runs):
        reached = f"{done} of {plural(len(runs), 'run')} {'has' if len(runs) == 1 else 'have'} reached the last round"
        yield Remark("note", "Not finished", f"{reached}; this is how things stand now.")


def _hidden_among(run: Recorded) -> int:
    """Return the fewest clients in whose sum an update was seen; before the first round, what was promised."""
    return min((each.crowd for each in run.rounds if each.crowd), default=run.header.crowd)


def _which(some: Runs, runs: Runs) -> str:
    return "" if len(some) == len(runs) else f" in {len(some)} of {plural(len(runs), 'run')}"
