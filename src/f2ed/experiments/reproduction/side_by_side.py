"""The page that sets rivals' own code beside ours: robust rules, who is malicious, and what a round costs."""

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import msgspec

from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.quoted import fill, logs_of
from f2ed.records import RunLog

__all__ = [
    "GroupTest",
    "Standing",
    "group_test_table",
    "left_out",
    "rival_table",
    "side_by_side_page",
    "standings",
    "usable",
    "winners",
]

OURS = ("Mean", "FilterL2", "FilterL2 + fence", "Dual filter + fence", "AlignIns (ours)")
_UNTARGETED = ("TMA", "Edge")
_ORDER = ("backdoor as trained", "backdoor x2", "DBA", "A3FL", "IBA", "adaptive backdoor")
_DATA = {"mnist": "MNIST", "digits": "Digits"}
_SHORT = {"backdoor as trained": "as trained", "backdoor x2": "x2", "adaptive backdoor": "adaptive"}
_USABLE = 2.0  # points of accuracy without an attack that a rule may lose and still be compared


_HEAD = """# Side by side with rivals

<!-- Written by docs/scripts/side_by_side.py from the records; change that instead. -->

"""
_CLAIM = """Rivals' own code, over the same data, partition, attackers and seeds as our rules. **What they win:**"""
_THEY_WIN = (
    """*AlignIns*, in its authors' code, lets in the least of its worst backdoor in every table below, also over shard
    means, where FilterL2 and its fence let in much more of the adaptive backdoor. No attack was searched for against
    it here; on MNIST with 25 shards a search found one against [our version of it](frontier.md).""",
    """Rivals are made for a server that sees every client's update: they have no secure aggregation. There all robust
    rules of ours and the best of theirs are close, except against the adaptive backdoor.""",
    """*FedGT* names malicious clients, and how many there are, from sums over four clients on a single server. Shards
    with a robust mean reject whole shards, and name nobody.""",
    """*RiseFL* needs one server and no helper, and shows it nothing but the sum of all updates. Shards show sums over a
    few clients; [helpers](helpers.md) show the judge how updates relate, and must not collude.""",
    """*BackFed* has more backdoors and defenses, and experiments with images, handwriting and text that are larger than
    ours.""",
)
_RULES = """Digits: 40 clients of whom 4 are malicious, 20 rounds, one or two seeds. MNIST: 100 clients of whom 10 are
malicious, 30 rounds, a single seed. All clients have all classes; a small dense network. With *a row for each client*
a rule sees every update, and a tenth is malicious; with *10 shards* it sees what our server sees, means of four
clients, of which up to four are contaminated. Mean ± half the range over the seeds, in percent: accuracy, and from the
first backdoor on its success. *Adaptive* tries the rule in use before it sends; it was found by `f2ed search` against
FilterL2. *IBA* fits its trigger to the model and has some success against one that was never poisoned. An empty cell
was not run. The least backdoor and the most accuracy, of the rules that cost at most 2 points without an attack and
were run against every backdoor:"""
_NOT_RUN = """Settings are the defaults of each repository; `benchmarks/rivals/README.md` names commits, functions and
exceptions. Not run: clients with few classes, and MNIST with shards and further seeds, which
`benchmarks/rivals/side_by_side.toml` has; BackFed's CIFAR-10 experiments, which go on from a model of 2,000 rounds
that was not in the copy we had; its DeepSight, FLDetector, FLTrust and FLARE."""
_FEDGT = """FedGT's setting: MNIST, 15 clients with logistic regression, 10 rounds; malicious clients call every one a
seven. In the second round FedGT's code tests 8 overlapping groups of 4 clients: it sees the sum over each, has 100
images of its own (or 1,000, in the second row), and knows the class under attack. FilterL2 assumes at most 5 malicious
clients, or 2 contaminated shards of 3 clients; a client counts as found if in that round its weight, or that of its
shard, is below half of an equal share. Malicious clients found, and honest ones named wrongly, over three seeds; in
parentheses the share of ones recognized after the last round. The rows for each client were in the clear here; with
[helpers](helpers.md) the same rule runs on rows that no party sees."""
_RISEFL = """RiseFL proves to a single server that the norm of each update is bounded. CPU seconds of a round of 100
clients, of whom 10 may be malicious, in its own benchmark (C++, 1,000 samples, 16-bit weights; it runs one client and
multiplies), beside a round of ours with [helpers](helpers.md) on the same machine: one client, and server, mixer and
judge together. RiseFL sends 32 bytes per parameter, a commitment, by its message format; helpers send 8. The
guarantees differ: a norm bound stops long updates only, and a backdoor need not be longer than an honest update;
RiseFL's bound holds against any client and needs no second party."""
_HOW = """## How to run it

```console
$ python benchmarks/rivals/run.py --rivals FOLDER --out runs/rivals     # FOLDER holds checkouts of the projects
$ python benchmarks/rivals/fedgt.py --rivals FOLDER
$ python benchmarks/rivals/risefl.py LOG                                # of RiseFL's benchmark
$ python docs/scripts/side_by_side.py                                   # writes this page
```
"""


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
    def name(self) -> str:
        """The rule as sentences have it."""
        return f"{self.rule.removesuffix(' (ours)')}, as here" if self.rule.endswith("(ours)") else self.rule

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
    seen = "a row for each client" if log.header.mode == "none" else f"{len(log.header.shards)} shards"
    classes = "" if settings["partition"]["kind"] == "iid" else ", three classes per client"
    return f"{_DATA.get(settings['data']['kind'], settings['data']['kind'])}, {seen}{classes}"


def rival_table(rows: Sequence[Standing]) -> Table:
    """Return accuracy without and under attack, and the success of each backdoor, for the rules of one setting."""
    backdoors = sorted({attack for row in rows for attack in row.success}, key=_ORDER.index)
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


def usable(rows: Sequence[Standing]) -> list[Standing]:
    """Return the rules that cost little accuracy without an attack and met every backdoor, the least let in first."""
    best, every = max(row.honest for row in rows), {attack for row in rows for attack in row.success}
    kept = [row for row in rows if row.honest >= best - _USABLE and every <= set(row.success)]
    return sorted(kept, key=lambda row: row.largest)


def winners(rows: Sequence[Standing]) -> str:
    """Say which rules let in the least and keep the most accuracy: theirs and ours, the better first."""
    kept = usable(rows)
    parts = []
    for whose in sorted({row.ours for row in kept}, key=lambda ours: next(r.largest for r in kept if r.ours == ours)):
        mine = [row for row in kept if row.ours == whose]
        least, most = mine[0], max(mine, key=lambda row: row.lowest)
        parts.append(
            f"{'of ours' if whose else 'of theirs'} *{least.name}* lets in {least.largest[0]:.1f} % of its worst "
            f"backdoor ({least.largest[1]}), and *{most.name}* keeps {most.lowest[0]:.1f} % accuracy under its worst "
            f"attack ({most.lowest[1]})"
        )
    return f"{'; '.join(parts)}."


def left_out(rows: Sequence[Standing]) -> str:
    """Name the rules that cost too much without any attack; empty if there are none."""
    best = max(row.honest for row in rows)
    lost = ", ".join(f"*{row.name}* ({row.honest:.1f} %)" for row in rows if row.honest < best - _USABLE)
    return f"More than {_USABLE:g} points below the best ({best:.1f} %) without any attack: {lost}." if lost else ""


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


def side_by_side_page(results: Path) -> str:
    """Return the whole page."""
    logs = logs_of(results / "side_by_side" / "rivals")
    every = sorted((row for row in standings(logs) if row.success and "none" in row.accuracy), key=_rank)
    settings = {name: [row for row in every if row.setting == name] for name in dict.fromkeys(r.setting for r in every)}
    runs = msgspec.json.decode((results / "side_by_side" / "fedgt.json").read_bytes(), type=list[GroupTest])
    summary = "\n".join(_bullet(f"*{_capital(name)}*: {winners(rows)}") for name, rows in settings.items())
    tables = [
        f"### {_capital(name)}\n\n{rival_table(rows).markdown()}"
        + (f"\n{fill(left_out(rows))}" if left_out(rows) else "")
        for name, rows in settings.items()
    ]
    devices = ", ".join(sorted({log.header.device for log in logs}))
    return "\n".join(
        [
            _HEAD + fill(_CLAIM) + "\n" + "\n".join(map(_bullet, _THEY_WIN)),
            "\n## Robust rules\n\n" + fill(_RULES) + "\n" + summary + "\n",
            *tables,
            fill(f"{len(logs)} runs on {devices} (`results/side_by_side/`). {_NOT_RUN}"),
            "## Who is malicious: FedGT\n\n" + fill(_FEDGT) + "\n" + group_test_table(runs).markdown(),
            "## What a round costs: RiseFL\n\n"
            + fill(_RISEFL)
            + "\n"
            + _cost_table(results / "side_by_side" / "risefl.json").markdown(),
            _HOW,
        ]
    )


def _rank(row: Standing) -> tuple[str, bool, float]:
    """Sort by setting, those with a row for each client first, and then by the worst backdoor."""
    return row.setting.partition(",")[0], "shards" in row.setting, row.largest[0]


def _bullet(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
