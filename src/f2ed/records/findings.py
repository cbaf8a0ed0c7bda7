"""What follows from the records of runs, as graded findings: guarantee, privacy, clipping, unfinished runs."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar, final

import msgspec

from f2ed.records import text
from f2ed.records.grading import MAX_DP_EPSILON, Level, grade_region
from f2ed.records.schema import LeakReading, RoundRecord, RunHeader
from f2ed.records.text import plural

__all__ = ["Finding", "Recorded", "by_guarantee", "guarantee", "privacy", "stuck", "unfinished", "upkeep"]


class Recorded(Protocol):
    """The records of a run, however they were read."""

    @property
    def header(self) -> RunHeader:
        """Its header."""
        ...

    @property
    def rounds(self) -> tuple[RoundRecord, ...]:
        """Its rounds, or some of them, including the last."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the last planned round is there."""
        ...


Runs = Sequence[Recorded]
Some = TypeVar("Some", bound=Recorded)


@final
class Finding(msgspec.Struct, frozen=True):
    """One or two sentences with a grade."""

    level: Level
    about: str
    text: str

    @property
    def sentence(self) -> str:
        """The text with its subject."""
        return f"{self.about}: {self.text}"


def by_guarantee(runs: Sequence[Some]) -> list[list[Some]]:
    """Group runs to which the same guarantee applies."""
    found: dict[tuple[Any, ...], list[Some]] = {}
    for run in runs:
        stated = run.header.guarantee
        alone = run.header.mode == "none" or bool(run.header.settings.get("helpers"))
        key = (*map(stated.get, ("malicious", "shards", "region")), alone)
        found.setdefault(key, []).append(run)
    return list(found.values())


def guarantee(runs: Runs, failed: Sequence[str]) -> Finding:
    """Return which guarantee applied to such runs; `failed` are the attacks that broke FilterL2 nevertheless."""
    stated = runs[0].header.guarantee
    malicious, rows, region = (stated.get(name) for name in ("malicious", "shards", "region"))
    if not region or not rows or malicious is None:
        return Finding("unknown", "Guarantee", "the records do not state which guarantee applied.")
    alone = runs[0].header.mode == "none" or runs[0].header.settings.get("helpers")
    sentence = f"{text.guarantee(malicious, rows, region, 'updates' if alone else 'shards')}."
    records = [record for run in runs for record in run.rounds]
    if worse := sum(record.guarantee not in {"", region, "theorem"} for record in records):
        sentence += (
            f" In {worse} of {plural(len(records), 'round')} so many rows were missing that the guarantee was weaker."
        )
    if region != "theorem":
        return Finding(grade_region(region), "Guarantee", f"none. {sentence}")
    if not any(run.header.estimator.kind == "filter-l2" for run in runs):
        sentence += " It covers FilterL2, which was not run; the other estimators have no such theorem."
        return Finding("note", "Guarantee", f"the theorem. {sentence}")
    if failed:
        sentence += f" FilterL2 was broken nevertheless by {', '.join(failed)}: look at the weights of the shards."
        return Finding("broken", "Guarantee", f"the theorem. {sentence}")
    return Finding("degraded" if worse else "held", "Guarantee", f"the theorem. {sentence}")


def privacy(runs: Runs) -> Iterator[Finding]:
    """Return how well updates were hidden, and what all rounds together reveal."""
    masked = [run for run in runs if run.header.mode not in {"clear", "none", "unknown"}]
    if masked:
        size = min(_crowd(run) for run in masked)
        sentence = f"{text.crowd(size)}{_which(masked, runs)}."
        yield Finding("held" if size > 1 else "broken", "Privacy", sentence)
    if helped := [run for run in masked if run.header.mode == "helpers"]:
        yield Finding("note", "Privacy", f"{text.helpers(helped[0].header)[0]}{_which(helped, runs)}.")
    if bare := [run for run in runs if run.header.mode == "none"]:
        which = _which(bare, runs) or " in every run"
        yield Finding("broken", "Privacy", f"the server saw each update individually{which}: there were no shards.")
    if clear := [run for run in runs if run.header.mode == "clear"]:
        which = "every run" if len(clear) == len(runs) else f"{len(clear)} of {plural(len(runs), 'run')}"
        yield Finding(
            "note", "Privacy", f"{which} summed the same integers without masks (secure = false), to save time."
        )
    yield from _over_rounds(runs)
    yield from _noise(runs)


def upkeep(runs: Runs) -> Iterator[Finding]:
    """Return what an operator may want to fix."""
    records = [record for run in runs for record in run.rounds]
    if skipped := [record for record in records if record.skipped is not None]:
        sentence = f"{len(skipped)} of {plural(len(records), 'round')} left the model as it was: {skipped[-1].skipped}."
        yield Finding("degraded", "Skipped rounds", sentence)
    if cut := [run for run in runs if any(record.clipped_honest for record in run.rounds)]:
        advice = "raise clip_value, or that of buffers, or lower the learning rate."
        sentence = f"honest updates were clipped{_which(cut, runs)}: {advice}"
        yield Finding("degraded", "Clipping", sentence)
    if closed := sum(bool(record.excluded) for record in records):
        sentence = f"in {closed} of {plural(len(records), 'round')} some rows did not take part; the records state why."
        yield Finding("note", "Excluded", sentence)


def stuck(runs: Runs) -> Iterator[Finding]:
    """Return which simulated runs learned nothing, since no round or hardly any moved the model, and why."""
    still = [run for run in runs if run.header.source == "simulation" and _idle(run) > len(run.rounds) / 2]
    if not still:
        return
    idle, rounds = sum(map(_idle, still)), sum(len(run.rounds) for run in still)
    which = f" of {plural(len(still), 'run')}" if len(still) < len(runs) else ""
    rates = sorted({str((run.header.settings.get("training") or {}).get("lr")) for run in still if _diverged(run)})
    cause = (
        "the clients' updates were NaN or infinite, so training diverged; the learning rate "
        f"(lr = {' or '.join(rates)}) is most likely too large"
        if rates
        else next(record.skipped or "the step was zero" for record in still[0].rounds if _no_step(record))
    )
    sentence = f"the model did not move in {idle} of {plural(rounds, 'round')}{which}: {cause}. The rest says nothing."
    yield Finding("broken", "Training", sentence)


def _idle(run: Recorded) -> int:
    return sum(map(_no_step, run.rounds))


def _no_step(record: RoundRecord) -> bool:
    return record.skipped is not None or record.step == 0


def _diverged(run: Recorded) -> bool:
    """Return whether updates of clients were not finite."""
    return any(
        "NaN" in reason
        for record in run.rounds
        for reason in (record.skipped or "", *record.dropped.values(), *record.excluded.values())
    )


def unfinished(runs: Runs) -> Iterator[Finding]:
    """Return how many runs have rounds to go."""
    done = sum(run.finished for run in runs)
    if done < len(runs):
        reached = f"{done} of {plural(len(runs), 'run')} {'has' if len(runs) == 1 else 'have'} reached the last round"
        yield Finding("note", "Not finished", f"{reached}; this is the state so far.")


def _noise(runs: Runs) -> Iterator[Finding]:
    """Return the differential privacy of the client that has spent most."""
    noisy = [(spent, run) for run in runs if run.rounds and (spent := run.rounds[-1].max_dp_epsilon) is not None]
    if not noisy:
        return
    worst, run = max(noisy, key=lambda pair: pair[0])
    sentence = text.dp(worst, None if run.header.noise is None else run.header.noise.delta)
    level: Level = "held" if worst <= MAX_DP_EPSILON else "note"
    yield Finding(level, "Differential privacy", f"{sentence}{_which([one for _, one in noisy], runs)}.")


def _over_rounds(runs: Runs) -> Iterator[Finding]:
    """Return what the leak meter read; without one, only the schedule is known."""
    metered = [(run, leak) for run in runs if (leak := _reading(run)) is not None]
    exposed = [(run, leak) for run, leak in metered if leak.exposed]
    if exposed:
        run, worst = max(exposed, key=lambda pair: pair[1].exposed)
        sentence = f"{text.leak_reading(worst, run.header.clients)}{_which([one for one, _ in exposed], runs)}."
        yield Finding("broken", "Over the rounds", sentence)
    elif metered:
        run, worst = min(metered, key=lambda pair: pair[1].crowd)
        sentence = f"{text.leak_reading(worst, run.header.clients)}{_which([one for one, _ in metered], runs)}."
        yield Finding("held", "Over the rounds", sentence)
    unmetered = [run for run in runs if run.header.mode not in {"none", "unknown"} and _reading(run) is None]
    if moved := sum(text.kind(run.header.settings.get("schedule")) not in {"", "fixed"} for run in unmetered):
        sentence = "reassigned clients to shards, so that the server can compare sums and solve for single clients."
        yield Finding("degraded", "Over the rounds", f"{plural(moved, 'run')} {sentence}")


def _reading(run: Recorded) -> LeakReading | None:
    return run.rounds[-1].leak if run.rounds else None


def _crowd(run: Recorded) -> int:
    return min((each.crowd for each in run.rounds if each.crowd), default=run.header.crowd)


def _which(some: Runs, runs: Runs) -> str:
    return "" if len(some) == len(runs) else f" in {len(some)} of {plural(len(runs), 'run')}"
