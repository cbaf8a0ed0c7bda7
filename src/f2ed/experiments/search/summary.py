"""What a search found, as a table: for each rule the lowest accuracy and the worst backdoor."""

from collections.abc import Sequence
from typing import Any, final

import msgspec

from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.search.objective import Objective

__all__ = ["Found", "table"]


@final
class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The most harmful attack on one rule by one objective."""

    setting: str
    rule: str
    objective: Objective
    trials: int
    stopped: int
    """Of the trials, those that were stopped early."""
    honest: tuple[float, ...]
    """Accuracy without an attack, for each seed."""
    accuracy: tuple[float, ...] = ()
    """Under the attack, for each seed; the first is the one that was searched with."""
    success: tuple[float, ...] = ()
    """Of a backdoor, for each seed."""
    unpoisoned: tuple[float, ...] = ()
    """Of the same trigger against a model that was never poisoned."""
    planted: tuple[float, ...] = ()
    """The success that is owed to poisoning: what exceeds that."""
    attack: dict[str, Any] = {}
    attack_from: int = 0
    placement: str | None = None
    file: str = ""
    """The experiment file that repeats the attack."""

    @property
    def name(self) -> str:
        """What a table calls the attack."""
        return str(self.attack.get("kind", ""))


def table(found: Sequence[Found]) -> Table:
    """Return one row for each setting and rule; values in percent, means over the seeds ± half their range.

    Of a backdoor counts what it planted; its success and that of its trigger against a clean model stand beside it.
    """
    rows: dict[tuple[str, str], dict[str, Found]] = {}
    for each in found:
        rows.setdefault((each.setting, each.rule), {})[each.objective] = each
    settings = any(setting for setting, _ in rows)
    head = (
        "no attack",
        "worst accuracy",
        "worst backdoor",
        "its success",
        "against a clean model",
        "its accuracy",
        "attacks tried",
    )
    body = []
    for (setting, rule), by_objective in rows.items():
        lowest, backdoor = by_objective.get("accuracy"), by_objective.get("backdoor")
        honest = next(each.honest for each in by_objective.values())
        cells = (
            _text(honest),
            _text(lowest.accuracy, lowest.name) if lowest else "not searched",
            _text(backdoor.planted, backdoor.name) if backdoor else "not searched",
            _text(backdoor.success) if backdoor else "",
            _text(backdoor.unpoisoned) if backdoor else "",
            _text(backdoor.accuracy) if backdoor else "",
            str(sum(each.trials for each in by_objective.values())),
        )
        body.append((setting, rule, *cells) if settings else (rule, *cells))
    names = ("setting", "rule") if settings else ("rule",)
    return Table("Searched worst case", (*names, *head), tuple(body), len(names))


def _text(values: Sequence[float], attack: str = "") -> str:
    if not values:
        return "not run"
    spread = f" ± {50 * (max(values) - min(values)):.1f}" if len(values) > 1 else ""
    return f"{100 * sum(values) / len(values):.1f}{spread}{f' ({attack})' if attack else ''}"
