"""The audit in words: a page of Markdown with a verdict, a table for each attack and the pictures."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from f2ed.audit.findings import Course, Finding, Interval
from f2ed.audit.images import RECOGNISED
from f2ed.guarantees.leakage.forecast import ScheduleLeak

__all__ = ["as_record", "markdown", "verdict"]

_HEADS = {
    "inversion": ("Images from one shard mean", "A dense first layer: quotients of gradients, sure ones first."),
    "optimization": ("Images by matching the gradient", "A convolutional network; labels read from the last bias."),
    "labels": ("Labels", "From the bias of the last layer."),
    "membership": ("Was this image there?", "Whether an image lies in the span of the first layer's gradient."),
    "disaggregation": (
        "Single clients over many rounds",
        "Each client's own part of its updates, solved for from who was in which shard when.",
    ),
    "inconsistency": ("A server that lies", "The true model to one member, a dead one to the others."),
}


_LEGEND = (
    "Found is followed by its 95 % interval. Guess is what one reaches without having seen the shard. "
    "Plain is a server without shards, which sees each update."
)


def verdict(findings: Sequence[Finding]) -> list[str]:
    """Return what the findings come to, one sentence each."""
    said = []
    shares = {
        finding.shard: finding.found.value
        for finding in findings
        if (finding.attack, finding.metric, finding.setting)
        == ("inversion", "share recovered", "untrained dense model")
    }
    if shares:
        listed = ", ".join(f"{100 * share:.0f} % at {size}" for size, share in sorted(shares.items()))
        said.append(f"Images recovered from a shard mean of a dense model, by shard size: {listed}.")
    over = [finding for finding in findings if (finding.attack, finding.metric) == ("disaggregation", "cosine")]
    last = max((finding.rounds for finding in over), default=0)
    reached = {finding.setting: finding.found.value for finding in over if finding.rounds == last}
    foretold = {
        finding.setting: finding.found.value
        for finding in findings
        if (finding.metric, finding.rounds) == ("cosine, as the meter predicts", last)
    }
    if "every-round" in reached and "fixed" in reached:
        meter = f" The meter predicts {foretold['every-round']:.2f} and {foretold['fixed']:.2f}." if foretold else ""
        said.append(
            f"After {last} rounds a server knows a single client's own part with cosine "
            f"{reached['every-round']:.2f} if shards are dealt anew every round, "
            f"{reached['fixed']:.2f} if they are fixed.{meter}"
        )
    bound = [finding for finding in findings if finding.setting == "masks bound to the model"]
    if bound:
        # Noise may by chance be nearer to one image than the average image is; recognized it is not.
        gained = any(finding.found.low > RECOGNISED for finding in bound)
        found = (
            "learns something: the binding of masks has failed." if gained else "opens noise: masks are bound to them."
        )
        said.append(f"A server that sends different models to a shard {found}")
    return said


def markdown(
    title: str,
    findings: Sequence[Finding],
    leaks: Sequence[ScheduleLeak],
    pictures: Iterable[tuple[str, str]],
    courses: Sequence[Course] = (),
    recorded: Sequence[str] = (),
) -> str:
    """Return the page; pictures are (file, caption), `recorded` is what the run's own records say."""
    lines = [f"# {title}", ""]
    lines += [f"- {sentence}" for sentence in verdict(findings)]
    if recorded:
        lines += ["", "Of the run itself its records say:", "", *(f"- {sentence}" for sentence in recorded)]
    lines += [
        "",
        _LEGEND,
    ]
    for attack, (head, how) in _HEADS.items():
        chosen = [finding for finding in findings if finding.attack == attack]
        if chosen:
            lines += ["", f"## {head}", "", how, "", *_table(chosen)]
        if attack == "disaggregation" and courses:
            lines += ["", "Independent equations after each round, and the clients that they determine:", ""]
            lines += _courses(courses)
        if attack == "disaggregation" and leaks:
            lines += ["", "What the leak meter says of such a plan before any run:", "", *_meter(leaks)]
    shown = list(pictures)
    if shown:
        lines += ["", "## Pictures", "", "True images above, what was recovered of each below."]
        for file, caption in shown:
            lines += ["", f"{caption}:", "", f"![{caption}]({file})"]
    return "\n".join(lines) + "\n"


def as_record(finding: Finding) -> dict[str, Any]:
    """Return a finding as one flat line for the records of a run."""
    return {
        "record": "audit",
        "attack": finding.attack,
        "setting": finding.setting,
        "shard": finding.shard,
        "rounds": finding.rounds,
        "metric": finding.metric,
        "found": round(finding.found.value, 4),
        "low": round(finding.found.low, 4),
        "high": round(finding.found.high, 4),
        "guess": finding.guess,
        "plain": finding.plain,
    }


def _table(findings: Sequence[Finding]) -> list[str]:
    """Return one row per finding, with a column for rounds only where they differ."""
    over_rounds = len({finding.rounds for finding in findings}) > 1
    heads = ["setting", "shard", *(["rounds"] if over_rounds else []), "measure", "found", "guess", "plain"]
    rows = [heads, ["---"] * len(heads)]
    for finding in sorted(findings, key=lambda one: (one.metric, one.setting, one.rounds, one.shard)):
        rounds = [str(finding.rounds)] if over_rounds else []
        rows.append(
            [
                finding.setting,
                str(finding.shard),
                *rounds,
                finding.metric,
                _interval(finding.found),
                _number(finding.guess),
                _number(finding.plain),
            ]
        )
    return [f"| {' | '.join(row)} |" for row in rows]


def _courses(courses: Sequence[Course]) -> list[str]:
    """Return a row for each schedule: all rounds at first, then fewer, as by then little is new."""
    last = len(courses[0].ranks)
    shown = sorted({number for number in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100) if number < last} | {last})
    rows = [["schedule", *map(str, shown)], ["---"] * (len(shown) + 1)]
    for each in courses:
        counts = [(each.ranks[number - 1], each.exposed[number - 1]) for number in shown]
        rows.append([each.setting, *(f"{rank} ({exposed})" if exposed else str(rank) for rank, exposed in counts)])
    rows.append([f"everyone of {courses[0].clients}", *[f"{courses[0].clients}"] * len(shown)])
    return [f"| {' | '.join(row)} |" for row in rows]


def _meter(leaks: Sequence[ScheduleLeak]) -> list[str]:
    heads = [
        "schedule",
        "drop-outs, mode",
        "determined one by one",
        "first, last after",
        "cosine",
        "as if hidden among",
    ]
    rows = [heads, ["---"] * len(heads)]
    for found in leaks:
        schedule = msgspec.to_builtins(found.schedule)
        kind = ", ".join([schedule.pop("type"), *(f"{name} = {value}" for name, value in schedule.items())])
        away = f"{100 * found.client_dropout:g} %, {found.mode}" if found.client_dropout else "none"
        when = f"{found.first} rounds, {found.last or 'never'}" if found.first else "never"
        rows.append(
            [
                kind,
                away,
                f"{found.exposed} of {found.clients}",
                when,
                f"{found.cosine:.2f}",
                f"{found.effective_crowd:.1f}",
            ]
        )
    return [f"| {' | '.join(row)} |" for row in rows]


def _interval(found: Interval) -> str:
    return f"{_number(found.value)} ({_number(found.low)} to {_number(found.high)})"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if abs(value) >= 2 else f"{value:.2f}"
