"""Summarize a grid: how each attack fared against each estimator."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import msgspec

from f2ed.records import RunLog
from f2ed.records.findings import Finding, by_guarantee, guarantee, privacy, stuck, unfinished, upkeep
from f2ed.records.grading import grade, late_contaminated_weight
from f2ed.records.text import ending, kind, percent

__all__ = ["RunResult", "Summary", "summarize"]


@final
class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one run."""

    name: str
    arm: dict[str, str]
    attack: str
    estimator: str
    estimator_kind: str
    accuracy: float | None
    """After the last round; None where the task has no such thing."""
    loss: float | None
    success: float | None
    lost: float | None
    """Accuracy lost, in points, against the same settings without an attack, if that was run."""
    contaminated_weight: float | None
    """The weight on contaminated shards, averaged over the last rounds."""
    seconds: float
    """Mean per round."""
    guarantee: str


class Summary(NamedTuple):
    """The results, and sentences about them."""

    results: tuple[RunResult, ...]
    verdict: tuple[str, ...]


def summarize(logs: Sequence[RunLog]) -> Summary:
    """Compare the runs with each other, except those without a round."""
    logs = [log for log in logs if log.rounds]
    baseline = {_but_attack(log): log for log in logs if not log.header.attacked}
    results = tuple(_result(log, baseline.get(_but_attack(log))) for log in logs)
    first = (finding.sentence for finding in stuck(logs))
    return Summary(results, (*first, *_sentences(results), *(each.sentence for each in _findings(logs, results))))


def _but_attack(log: RunLog) -> bytes:
    settings = {name: value for name, value in log.header.settings.items() if name != "attack"}
    return msgspec.json.encode(settings, order="deterministic")


def _result(log: RunLog, baseline: RunLog | None) -> RunResult:
    header, last = log.header, log.rounds[-1]
    return RunResult(
        name=header.name,
        arm=header.arm,
        attack=header.arm.get("attack") or kind(header.settings.get("attack")) or "none",
        estimator=header.arm.get("estimator") or kind(header.settings.get("estimator")),
        estimator_kind=kind(header.settings.get("estimator")),
        accuracy=last.accuracy,
        loss=last.loss,
        success=last.success,
        lost=_points_lost(log, baseline),
        contaminated_weight=late_contaminated_weight(log.rounds) if header.attacked else None,
        seconds=sum(record.seconds.total for record in log.rounds) / len(log.rounds),
        guarantee=last.guarantee,
    )


def _points_lost(log: RunLog, baseline: RunLog | None) -> float | None:
    before, after = None if baseline is None else baseline.rounds[-1].accuracy, log.rounds[-1].accuracy
    return None if before is None or after is None or not log.header.attacked else 100 * (before - after)


def reached(result: RunResult) -> str:
    """Return the accuracy of a run, or its loss where there is none."""
    if result.accuracy is not None:
        return percent(result.accuracy)
    return "no finite loss" if result.loss is None else f"a loss of {result.loss:.4g}"


def _sentences(results: Sequence[RunResult]) -> Iterator[str]:
    """Compare every estimator with plain averaging, attack by attack; without it, describe each attack alone."""
    for rest in dict.fromkeys(_elsewhere(result) for result in results):
        there = [result for result in results if _elsewhere(result) == rest]
        suffix = f" ({rest})" if rest else ""
        for attack in dict.fromkeys(result.attack for result in there):
            arms = [result for result in there if result.attack == attack]
            plain = next((result for result in arms if result.estimator == "mean"), None)
            for result in arms:
                if result is not plain:
                    yield _against(result, plain) + suffix
            if len(arms) == 1 and plain is not None:
                yield _alone(plain) + suffix


def _elsewhere(result: RunResult) -> str:
    return ", ".join(f"{k} {v}" for k, v in result.arm.items() if k not in {"attack", "estimator"})


def _against(result: RunResult, plain: RunResult | None) -> str:
    if plain is None:
        return _alone(result)
    if result.attack == "none":
        return f"Without an attack {result.estimator} reaches {reached(result)} and plain averaging {reached(plain)}."
    return f"{_alone(result)} Plain averaging: {_ending(plain)}."


def _alone(result: RunResult) -> str:
    if result.attack == "none":
        return f"Without an attack {result.estimator} reaches {reached(result)}."
    return f"Under {_the(result.attack)}, {result.estimator}: {_ending(result)}."


def _ending(result: RunResult) -> str:
    return ending(result.accuracy, _lost(result), result.success) or reached(result)


def _lost(result: RunResult) -> float | None:
    return None if result.lost is None else result.lost / 100


def _findings(logs: Sequence[RunLog], results: Sequence[RunResult]) -> Iterator[Finding]:
    broken = {
        result.name: result.attack
        for result in results
        if result.estimator_kind == "filter-l2" and grade(_lost(result), result.success) == "broken"
    }
    for several in by_guarantee([log for log in logs if log.header.attacked]):
        yield guarantee(several, [broken[log.header.name] for log in several if log.header.name in broken])
    yield from privacy(logs)
    yield from upkeep(logs)
    yield from unfinished(logs)


def _the(attack: str) -> str:
    """Add an article to a descriptive label; kinds such as krum-attack are names."""
    return f"the {attack}" if re.fullmatch(r"[a-z ]*(attack|backdoor)", attack) else attack
