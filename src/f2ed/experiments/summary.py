"""What came of a grid, in plain language: how far each attack got against each rule."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import msgspec

from f2ed.records import RunLog
from f2ed.records.text import Remark, by_promise, ending, graded, kind, percent, privacy, promise, unfinished, upkeep

__all__ = ["Outcome", "Summary", "summarize"]

_LATE = 3


@final
class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one run ended."""

    name: str
    arm: dict[str, str]
    attack: str
    estimator: str
    estimator_kind: str
    accuracy: float
    """After the last round."""
    success: float | None
    below: float | None
    """Points of accuracy lost against the same settings without an attack, where that was run."""
    attackers_believed: float | None
    """The weight given to contaminated shards, on average over the last rounds."""
    seconds: float
    """Of a round, on average."""
    guarantee: str


class Summary(NamedTuple):
    """The outcomes, and sentences about them."""

    outcomes: tuple[Outcome, ...]
    verdict: tuple[str, ...]


def summarize(logs: Sequence[RunLog]) -> Summary:
    """Compare the runs with each other; runs without a round are left out."""
    logs = [log for log in logs if log.rounds]
    calm = {_but_attack(log): log for log in logs if not log.header.attacked}
    outcomes = tuple(_outcome(log, calm.get(_but_attack(log))) for log in logs)
    return Summary(outcomes, (*_sentences(outcomes), *(remark.sentence for remark in _remarks(logs, outcomes))))


def _but_attack(log: RunLog) -> bytes:
    settings = {name: value for name, value in log.header.settings.items() if name != "attack"}
    return msgspec.json.encode(settings, order="deterministic")


def _outcome(log: RunLog, calm: RunLog | None) -> Outcome:
    header, last = log.header, log.rounds[-1]
    believed = [share for record in log.rounds[-_LATE:] if (share := record.contaminated_weight) is not None]
    return Outcome(
        name=header.name,
        arm=header.arm,
        attack=header.arm.get("attack") or kind(header.settings.get("attack")) or "none",
        estimator=header.arm.get("estimator") or kind(header.settings.get("estimator")),
        estimator_kind=kind(header.settings.get("estimator")),
        accuracy=log.final_accuracy,
        success=last.success,
        below=100 * (calm.final_accuracy - log.final_accuracy) if calm is not None and header.attacked else None,
        attackers_believed=sum(believed) / len(believed) if believed and header.attacked else None,
        seconds=sum(record.seconds.total for record in log.rounds) / len(log.rounds),
        guarantee=last.guarantee,
    )


def _sentences(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Set the plain mean against the best of the other rules, attack by attack; else say how each attack went."""
    for rest in dict.fromkeys(_elsewhere(outcome) for outcome in outcomes):
        there = [outcome for outcome in outcomes if _elsewhere(outcome) == rest]
        suffix = f" ({rest})" if rest else ""
        for attack in dict.fromkeys(outcome.attack for outcome in there):
            arms = [outcome for outcome in there if outcome.attack == attack]
            plain = next((outcome for outcome in arms if outcome.estimator == "mean"), None)
            for outcome in arms:
                if outcome is not plain:
                    yield _against(outcome, plain) + suffix
            if len(arms) == 1 and plain is not None:
                yield _alone(plain) + suffix


def _elsewhere(outcome: Outcome) -> str:
    return ", ".join(f"{k} {v}" for k, v in outcome.arm.items() if k not in {"attack", "estimator"})


def _against(outcome: Outcome, plain: Outcome | None) -> str:
    if plain is None:
        return _alone(outcome)
    if outcome.attack == "none":
        reached = f"{outcome.estimator} reaches {percent(outcome.accuracy)}"
        return f"Without an attack {reached} and plain averaging {percent(plain.accuracy)}."
    return f"{_alone(outcome)} Plain averaging: {_ending(plain)}."


def _alone(outcome: Outcome) -> str:
    if outcome.attack == "none":
        return f"Without an attack {outcome.estimator} reaches {percent(outcome.accuracy)}."
    return f"Under {_the(outcome.attack)}, {outcome.estimator}: {_ending(outcome)}."


def _ending(outcome: Outcome) -> str:
    return ending(outcome.accuracy, _lost(outcome), outcome.success)


def _lost(outcome: Outcome) -> float | None:
    return None if outcome.below is None else outcome.below / 100


def _remarks(logs: Sequence[RunLog], outcomes: Sequence[Outcome]) -> Iterator[Remark]:
    broken = {
        outcome.name: outcome.attack
        for outcome in outcomes
        if outcome.estimator_kind == "filter-l2" and graded(_lost(outcome), outcome.success) == "broken"
    }
    for several in by_promise([log for log in logs if log.header.attacked]):
        yield promise(several, [broken[log.header.name] for log in several if log.header.name in broken])
    yield from privacy(logs)
    yield from upkeep(logs)
    yield from unfinished(logs)


def _the(attack: str) -> str:
    """Put an article before a label of words; tags such as tma are names."""
    return f"the {attack}" if re.fullmatch(r"[a-z ]*(attack|backdoor)", attack) else attack
