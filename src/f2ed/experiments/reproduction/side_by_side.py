"""The page that sets rivals' own code beside ours: robust rules, who is malicious, and what a round costs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec

from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.quoted import fill, logs_of
from f2ed.records import RunLog

__all__ = ["GroupTest", "Standing", "group_test_table", "rival_table", "side_by_side_page", "standings"]

OURS = ("Mean", "FilterL2", "FilterL2 + fence", "Dual filter + fence", "AlignIns (ours)")
_UNTARGETED = ("TMA", "Edge")
_SHORT = {"backdoor as trained": "as trained", "backdoor x2": "x2", "adaptive backdoor": "adaptive"}
_USABLE = 1.0  # points of accuracy without an attack that a rule may lose and still be compared


class Standing(NamedTuple):
    """The final values of a rule in a setting, in percent, by attack: one for each seed."""

    setting: str
    rule: str
    accuracy: Mapping[str, list[float]]
    success: Mapping[str, list[float]]

    @property
    def ours(self) -> bool:
        """Whether the rule is part of this project."""
        return self.rule in OURS

    @property
    def honest(self) -> float:
        """Accuracy without an attack; not a number where it was not run."""
        return fmean(self.accuracy["none"]) if "none" in self.accuracy else float("nan")

    @property
    def lowest(self) -> tuple[float, str]:
        """The lowest accuracy under an attack, and the attack."""
        return min((fmean(values), attack) for attack, values in self.accuracy.items() if attack != "none")

    @property
    def largest(self) -> tuple[float, str]:
        """The largest success of a backdoor, and the backdoor."""
        return max((fmean(values), attack) for attack, values in self.success.items())


def standings(logs: Sequence[RunLog]) -> list[Standing]:
    """Group finished runs by setting and rule, in the order of the records."""
    found: dict[tuple[str, str], tuple[dict[str, list[float]], dict[str, list[float]]]] = {}
    for log in logs:
        rule, attack = log.header.arm["estimator"], log.header.arm["attack"]
        accuracy, success = found.setdefault((_setting(log), rule), (defaultdict(list), defaultdict(list)))
        last = log.rounds[-1]
        accuracy[attack].append(100 * (last.accuracy or 0.0))
        if last.success is not None:
            success[attack].append(100 * last.success)
    return [Standing(setting, rule, *values) for (setting, rule), values in found.items()]


def _setting(log: RunLog) -> str:
    settings = log.header.settings
    classes = "i.i.d." if settings["partition"]["kind"] == "iid" else "three classes per client"
    return f"{'a row for each client' if log.header.mode == 'none' else '25 shards'}, {classes}"


def rival_table(rows: Sequence[Standing]) -> Table:
    """Return accuracy without and under attack, and the success of each backdoor, for the rules of one setting."""
    backdoors = list(dict.fromkeys(attack for row in rows for attack in row.success))
    untargeted = [attack for attack in _UNTARGETED if any(attack in row.accuracy for row in rows)]
    head = ("rule", "code", "no attack", *untargeted, *(_SHORT.get(each, each) for each in backdoors))
    lines = [
        (
            row.rule.removesuffix(" (ours)"),
            "ours" if row.ours else "theirs",
            *(_spread(row.accuracy.get(attack)) for attack in ("none", *untargeted)),
            *(_spread(row.success.get(attack)) for attack in backdoors),
        )
        for row in rows
    ]
    return Table("", head, tuple(lines), left=2)


def _spread(values: Sequence[float] | None) -> str:
    if not values:
        return ""
    middle = f"{fmean(values):.1f}"
    return middle if len(values) == 1 else f"{middle} ± {(max(values) - min(values)) / 2:.1f}"


def winners(rows: Sequence[Standing]) -> list[str]:
    """Say which rule keeps the most accuracy and which lets in the least, of theirs and of ours."""
    best = max(row.honest for row in rows)
    usable = [row for row in rows if row.honest >= best - _USABLE]
    sentences = []
    if lost := [row for row in rows if row not in usable]:
        names = ", ".join(f"*{row.rule}* ({row.honest:.1f} %)" for row in lost)
        sentences.append(
            f"Without an attack these are more than {_USABLE:g} point below the best ({best:.1f} %): {names}."
        )
    for ours, whose in ((False, "of theirs"), (True, "of ours")):
        mine = [row for row in usable if row.ours == ours and row.success]
        if not mine:
            continue
        least, most = min(mine, key=lambda row: row.largest), max(mine, key=lambda row: row.lowest)
        sentences.append(
            f"Best {whose} among the others: *{least.rule.removesuffix(' (ours)')}* lets in at most "
            f"{least.largest[0]:.1f} % of any backdoor ({least.largest[1]}), and "
            f"*{most.rule.removesuffix(' (ours)')}* never falls below {most.lowest[0]:.1f} % accuracy "
            f"({most.lowest[1]})."
        )
    return sentences


class GroupTest(msgspec.Struct, frozen=True):
    """One federation in which clients were to be found: who was, who is, and how good the model was."""

    rule: str
    malicious: int
    seed: int
    found: list[int] | None
    truth: list[int]
    accuracy: float
    source_recall: float


def group_test_table(runs: Sequence[GroupTest]) -> Table:
    """Return for each rule and number of malicious clients how many were found, and how many honest ones."""
    counts = sorted({run.malicious for run in runs})
    rows = []
    for rule in dict.fromkeys(run.rule for run in runs):
        cells = [_named([run for run in runs if (run.rule, run.malicious) == (rule, count)]) for count in counts]
        rows.append((rule, *cells))
    return Table("", ("rule", *(f"{count} malicious" for count in counts)), tuple(rows))


def _named(runs: Sequence[GroupTest]) -> str:
    recall = f"{100 * fmean(run.source_recall for run in runs):.1f} %"
    if any(run.found is None for run in runs):
        return f"({recall})"
    right = sum(len(set(run.found or ()) & set(run.truth)) for run in runs)
    wrong = sum(len(set(run.found or ()) - set(run.truth)) for run in runs)
    return f"{right} of {sum(len(run.truth) for run in runs)}, {wrong} wrong ({recall})"


def _cost_table(path: Path) -> Table:
    rows = []
    for each in msgspec.json.decode(path.read_bytes()):
        theirs, ours = each["risefl"], each["helpers"]
        client, parties = ours["client_ms"] / 1000, ours["parties_s"]
        rows.append(
            (
                f"{theirs['coordinates']:,}",
                f"{theirs['client_s']:.2f}",
                f"{client:.4f}",
                f"{theirs['client_s'] / client:,.0f}",
                f"{theirs['server_s']:.1f}",
                f"{parties:.2f}",
                f"{theirs['server_s'] / parties:,.0f}",
            )
        )
    head = ("parameters", "client, RiseFL", "client, helpers", "ratio", "server, RiseFL", "three parties", "ratio")
    return Table("", head, tuple(rows))


def side_by_side_page(results: Path, words: Mapping[str, str]) -> str:
    """Return the whole page: the words of each section, which docs/scripts/side_by_side.py has, with its tables."""
    every = [row for row in standings(logs_of(results / "rivals")) if row.success]
    settings = dict.fromkeys(row.setting for row in every)
    sections = [words["head"]]
    for setting in settings:
        rows = [row for row in every if row.setting == setting]
        said = "\n".join(fill(each) for each in winners(rows))
        sections.append(f"### {setting[0].upper()}{setting[1:]}\n\n{rival_table(rows).markdown()}\n{said}")
    runs = msgspec.json.decode((results / "side_by_side" / "fedgt.json").read_bytes(), type=list[GroupTest])
    sections.append(f"{words['fedgt']}\n{group_test_table(runs).markdown()}")
    sections.append(f"{words['risefl']}\n{_cost_table(results / 'side_by_side' / 'risefl.json').markdown()}")
    return "\n".join([*sections, words["how"]])
