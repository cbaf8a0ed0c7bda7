"""The audit as a Markdown page: conclusions, a table for each attack and the pictures."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from f2ed.audit.findings import Finding, Interval, RankHistory
from f2ed.audit.images import RECOGNIZED
from f2ed.guarantees.leakage.forecast import ScheduleLeak

__all__ = ["as_record", "conclusions", "markdown"]

_HEADS = {
    "inversion": ("Images from one shard mean", "Dense first layer: quotients of gradients, confirmed images first."),
    "optimization": ("Images by gradient matching", "Convolutional network; labels are read from the last bias."),
    "labels": ("Labels", "Label counts from the bias of the last layer."),
    "membership": ("Membership inference", "Does an image lie in the span of the first layer's gradient?"),
    "disaggregation": (
        "Single clients over many rounds",
        "Each client's round-invariant component, solved for from the shard means and the members of each shard.",
    ),
    "inconsistency": (
        "Different models for different clients",
        "The true model to one member, a dead one to the others.",
    ),
}


_LEGEND = (
    "Found is followed by its 95 % interval. Guess is the result without having seen the shard. "
    "Plain is the result of a server without shards, which sees each update."
)


def _recovered(findings: Sequence[Finding], setting: str) -> str:
    """List the share of the images that were recovered, by shard size."""
    wanted = ("inversion", "share recovered", setting)
    shares = {
        finding.shard: finding.found.value
        for finding in findings
        if (finding.attack, finding.metric, finding.setting) == wanted
    }
    return ", ".join(f"{100 * share:.0f} % at {size}" for size, share in sorted(shares.items()))


def conclusions(findings: Sequence[Finding]) -> list[str]:
    """Return the main results, one sentence each."""
    sentences = []
    trained, untrained = (_recovered(findings, f"{name} dense model") for name in ("trained", "untrained"))
    if trained or untrained:
        worst = f"untrained, which is the worst case: {untrained}" if untrained else ""
        listed = "; ".join(filter(None, (f"trained: {trained}" if trained else "", worst)))
        sentences.append(f"Images recovered from a shard mean of a dense model, by shard size, {listed}.")
    over = [finding for finding in findings if (finding.attack, finding.metric) == ("disaggregation", "cosine")]
    last = max((finding.rounds for finding in over), default=0)
    reached = {finding.setting: finding.found.value for finding in over if finding.rounds == last}
    predicted = {
        finding.setting: finding.found.value
        for finding in findings
        if (finding.metric, finding.rounds) == ("cosine predicted by the meter", last)
    }
    if "every-round" in reached and "fixed" in reached:
        meter = f" The meter predicts {predicted['every-round']:.2f} and {predicted['fixed']:.2f}." if predicted else ""
        sentences.append(
            f"After {last} rounds a server recovers the round-invariant component of a client's update with cosine "
            f"{reached['every-round']:.2f} if clients are resharded every round, "
            f"{reached['fixed']:.2f} if shards are fixed.{meter}"
        )
    bound = [finding for finding in findings if finding.setting == "masks bound to the model"]
    if bound:
        # Noise may by chance be closer to an image than the average image is, but it is not recognizable.
        gained = any(finding.found.low > RECOGNIZED for finding in bound)
        found = (
            "learns an update: the binding of masks to the model has failed."
            if gained
            else "opens only noise: masks are bound to the model."
        )
        sentences.append(f"A server that sends different models to the members of a shard {found}")
    return sentences


def markdown(
    title: str,
    findings: Sequence[Finding],
    leaks: Sequence[ScheduleLeak],
    pictures: Iterable[tuple[str, str]],
    histories: Sequence[RankHistory] = (),
    recorded: Sequence[str] = (),
) -> str:
    """Return the page; pictures are (file, caption), `recorded` are sentences from the run's own records."""
    lines = [f"# {title}", ""]
    lines += [f"- {sentence}" for sentence in conclusions(findings)]
    if recorded:
        lines += ["", "From the records of the run:", "", *(f"- {sentence}" for sentence in recorded)]
    lines += [
        "",
        _LEGEND,
    ]
    for attack, (head, how) in _HEADS.items():
        chosen = [finding for finding in findings if finding.attack == attack]
        if chosen:
            lines += ["", f"## {head}", "", how, "", *_table(chosen)]
        if attack == "disaggregation" and histories:
            lines += [
                "",
                "Independent equations after each round (in brackets, the number of clients that they determine):",
                "",
            ]
            lines += _rank_table(histories)
        if attack == "disaggregation" and leaks:
            lines += ["", "Forecast of the leak meter for such a plan:", "", *_meter(leaks)]
    shown = list(pictures)
    if shown:
        lines += ["", "## Pictures", "", "True images above, reconstructions below."]
        for file, caption in shown:
            lines += ["", f"{caption}:", "", f"![{caption}]({file})"]
    return "\n".join(lines) + "\n"


def as_record(finding: Finding) -> dict[str, Any]:
    """Return a finding as one flat line of a run's records."""
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
    """Return one row per finding; a column for rounds only where they differ."""
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


def _rank_table(histories: Sequence[RankHistory]) -> list[str]:
    """Return a row for each schedule; later rounds are thinned out."""
    last = len(histories[0].ranks)
    shown = sorted({number for number in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100) if number < last} | {last})
    rows = [["schedule", *map(str, shown)], ["---"] * (len(shown) + 1)]
    for each in histories:
        counts = [(each.ranks[number - 1], each.exposed[number - 1]) for number in shown]
        rows.append([each.setting, *(f"{rank} ({exposed})" if exposed else str(rank) for rank, exposed in counts)])
    rows.append([f"all {histories[0].clients} clients", *[f"{histories[0].clients}"] * len(shown)])
    return [f"| {' | '.join(row)} |" for row in rows]


def _meter(leaks: Sequence[ScheduleLeak]) -> list[str]:
    heads = [
        "schedule",
        "dropouts, mode",
        "clients determined",
        "first, last after",
        "cosine",
        "effective crowd",
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
