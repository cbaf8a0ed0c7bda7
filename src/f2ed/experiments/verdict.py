"""What came of a grid, in plain language: how far each attack got against each rule."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import msgspec

from f2ed.records import RunLog

__all__ = ["Outcome", "Summary", "summarise"]

_LATE = 3


@final
class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one run ended."""

    name: str
    arm: dict[str, str]
    attack: str
    estimator: str
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


def summarise(logs: Sequence[RunLog]) -> Summary:
    """Compare the runs with each other; runs without a round are left out."""
    logs = [log for log in logs if log.rounds]
    calm = {_but_attack(log): log for log in logs if not log.header.attacked}
    outcomes = tuple(_outcome(log, calm.get(_but_attack(log))) for log in logs)
    return Summary(outcomes, (*_sentences(outcomes), *_remarks(logs)))


def _but_attack(log: RunLog) -> bytes:
    settings = {name: value for name, value in log.header.settings.items() if name != "attack"}
    return msgspec.json.encode(settings, order="deterministic")


def _outcome(log: RunLog, calm: RunLog | None) -> Outcome:
    header, last = log.header, log.rounds[-1]
    believed = [share for record in log.rounds[-_LATE:] if (share := record.believed_attackers) is not None]
    return Outcome(
        name=header.name,
        arm=header.arm,
        attack=header.arm.get("attack") or _kind(header.settings.get("attack")),
        estimator=header.arm.get("estimator") or _kind(header.settings.get("estimator")),
        accuracy=last.accuracy,
        success=last.success,
        below=100 * (calm.rounds[-1].accuracy - last.accuracy) if calm is not None and header.attacked else None,
        attackers_believed=sum(believed) / len(believed) if believed and header.attacked else None,
        seconds=sum(record.seconds.total for record in log.rounds) / len(log.rounds),
        guarantee=last.guarantee,
    )


def _kind(settings: object) -> str:
    return str(settings["kind"]) if isinstance(settings, dict) else "none"


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
        return (
            f"Without an attack {outcome.estimator} reaches {_percent(outcome.accuracy)} and plain averaging "
            f"{_percent(plain.accuracy)}."
        )
    if outcome.success is not None and plain.success is not None:
        text = (
            f"Under {_the(outcome.attack)} plain averaging is fooled on {_percent(plain.success)} of the attacker's "
            f"images, {outcome.estimator} on {_percent(outcome.success)}"
        )
    else:
        gap = 100 * (outcome.accuracy - plain.accuracy)
        text = (
            f"Under {_the(outcome.attack)} plain averaging falls to {_percent(plain.accuracy)}; {outcome.estimator} "
            f"ends at {_percent(outcome.accuracy)}, {abs(gap):.1f} points {'higher' if gap >= 0 else 'lower'}"
        )
    return text + _kept(outcome)


def _alone(outcome: Outcome) -> str:
    if outcome.attack == "none":
        return f"Without an attack {outcome.estimator} reaches {_percent(outcome.accuracy)}."
    text = f"Under {_the(outcome.attack)} {outcome.estimator} ends at {_percent(outcome.accuracy)}"
    if outcome.success is not None:
        text += f" and is fooled on {_percent(outcome.success)} of the attacker's images"
    return text + _kept(outcome)


def _kept(outcome: Outcome) -> str:
    if outcome.below is None:
        return "."
    if outcome.below <= 0:
        return ", with no accuracy lost to the attack."
    return f", {outcome.below:.1f} points of accuracy below its run without an attack."


def _remarks(logs: Sequence[RunLog]) -> Iterator[str]:
    regions = {log.rounds[-1].guarantee for log in logs}
    if "nothing" in regions:
        yield "In some runs half of the rows or more may be spoilt: no rule can help there (see f2ed plan)."
    elif "experience" in regions:
        yield (
            "This is experience, not a theorem: 12 · malicious < shards does not hold "
            "(f2ed plan says what would have to change)."
        )
    hidden = min((log.header.hidden_among for log in logs), default=0)
    if hidden > 1:
        yield f"Throughout, the server saw only sums of at least {hidden} clients."
    cut = [log for log in logs if any(record.clipped_honest for record in log.rounds)]
    if cut:
        yield f"In {len(cut)} runs honest updates were clipped: raise clip (or lower the learning rate)."
    closed = sum(bool(record.excluded) for log in logs for record in log.rounds)
    if closed:
        yield f"In {closed} rounds some shards had no say; the records say why."


def _the(attack: str) -> str:
    """Put an article before a label of words; tags such as tma are names."""
    return f"the {attack}" if re.fullmatch(r"[a-z ]*(attack|backdoor)", attack) else attack


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
