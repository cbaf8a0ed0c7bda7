"""The page on data beyond MNIST: what each rule keeps of its accuracy under attack, from the records."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from f2ed.experiments.file import find, read
from f2ed.experiments.grid import Cell, expand
from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.outcomes import matched
from f2ed.experiments.reproduction.quoted import fill, logs_of
from f2ed.records import RunLog

__all__ = [
    "EXPERIMENTS",
    "PICTURES",
    "interrupted",
    "price_of_shards",
    "real_data_curves",
    "real_data_page",
    "real_data_table",
]

EXPERIMENTS = ("cifar10", "cifar10_cnn", "shakespeare", "newsgroups", "tabular")

PICTURES = ("cifar10", "cifar10_cnn")
"""The experiments whose curves are drawn."""

_HEAD = """# Beyond MNIST

<!-- Written by docs/scripts/real_benchmarks.py from the records; change that instead. -->

"""
_ABOUT = """The same shards and rules on four other kinds of data, with clients that differ much from one another. In
every run a tenth of the clients is malicious and knows the shards and the honest updates. *Mean, no shards* is plain
federated averaging, which hides nothing."""
_CAPTION = """Accuracy in percent after the last round: the mean over the seeds and, in parentheses, the lowest and the
highest; for a backdoor also the share of triggered samples that it wins. An empty cell was not run."""
# How settings were chosen, and what the runs do not show.
_CHOSEN = {
    "cifar10": """One local epoch in batches of ten, in bfloat16. In the last round accuracy still rises: the network is
    capable of more. Learning rate and batch size were the best of four pairs after 12 rounds on the test set of seed
    0.""",
    "cifar10_cnn": """Two local epochs in batches of ten; the learning rate was the best of 0.02, 0.05 and 0.1 after 2
    rounds on the test set.""",
    "shakespeare": """The learning rate was the best of 0.3, 1 and 3 after 2 rounds on the test set. With
    it some coordinates of honest updates are clipped.""",
    "newsgroups": """For hashed words, model and learning rate were chosen among four pairs, by the accuracy on the test
    set of seed 0 without an attack, and 20 rounds run. For MiniLM the first setting was kept, 10 rounds run, and a few
    coordinates of honest updates are clipped.""",
    "tabular": """The first setting tried was kept; honest updates were clipped in 1 of the 15 runs of seed 0.""",
}
_COMMANDS = """## Running them

```console
$ f2ed data cifar-10 shakespeare newsgroups adult minilm --fetch
$ nvidia-cuda-mps-control -d      # NVIDIA's MPS: kernels of several runs share the GPU at the same time
$ f2ed run cifar10 --device cuda --jobs 4
$ f2ed run tabular --jobs 2
```

"""
_NOTES = """With MPS, a round of Shakespeare took 1.2 to 2.1 s in each of five processes beside other runs; in earlier
runs without it, 6.2 to 9.5 s. The two were not compared in one run. CIFAR-10 comes from its public mirror, or from a
package where that cannot be reached; the others come from packages. Every file is checked against its SHA-256.
ResNet-18 has group normalization, so nothing but weights is averaged. Of MiniLM only the matrices B of its adapters and
the classifier are trained and sent: A is the same everywhere, so the mean of B over a shard gives exactly the mean of
the clients' changes."""


def real_data_page(results: Path) -> str:
    """Return the whole page; an experiment without records says so."""
    sections = [_section(name, results) for name in EXPERIMENTS]
    return "\n".join([_HEAD + fill(_ABOUT), *sections, _COMMANDS + fill(_NOTES)])


def _section(name: str, results: Path) -> str:
    file = read(find(Path(name)))
    cells = expand(file)
    logs = list(logs_of(results / name))
    found, unfinished = matched(cells, logs), matched(cells, logs, finished=False)
    command = f"`experiments/{name}.toml`, {len(found)} of {len(cells)} runs"
    if not found:
        return f"## {file.title}\n\n{fill(f'{file.about} Not run yet ({command}).')}"
    note = f" {_CHOSEN[name]}" if name in _CHOSEN else ""
    devices = ", ".join(sorted({log.header.device for log in found.values()}))
    about = fill(f"{file.about} {_rounds(found)} ({command}, on {devices}).{note}")
    notes = (price_of_shards(cells, found), interrupted(cells, found, unfinished))
    caption = "\n".join(map(fill, (_CAPTION, *(each for each in notes if each))))
    text = f"## {file.title}\n\n{about}\n{real_data_table(cells, found).markdown()}\n{caption}"
    return f"{text}\n![The rounds of every rule under every attack](figures/{name}.svg)\n" if name in PICTURES else text


def real_data_curves(name: str, results: Path) -> dict[str, dict[str, list[list[float]]]]:
    """Return each seed's accuracy in percent, round by round, for every attack and rule; backdoors also by success."""
    cells = expand(read(find(Path(name))))
    found = matched(cells, list(logs_of(results / name)))
    panels: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell.slug not in found:
            continue
        attack, rounds = _arm(cell, "attack", "none"), found[cell.slug].rounds
        title = f"{'no attack' if attack == 'none' else attack}: accuracy"
        panels[title][_rule(cell)].append([100 * (each.accuracy or 0) for each in rounds])
        if rounds[-1].success is not None:
            panels[f"{attack}: success"][_rule(cell)].append([100 * (each.success or 0) for each in rounds])
    return {title: dict(curves) for title, curves in panels.items()}


def _rounds(found: Mapping[str, RunLog]) -> str:
    counts = sorted({log.header.rounds for log in found.values()})
    return f"{' or '.join(map(str, counts))} rounds"


def real_data_table(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> Table:
    """Return one row for each rule, one column for each attack."""
    ends: dict[tuple[str, str], dict[str, list[RunLog]]] = defaultdict(lambda: defaultdict(list))
    attacks: dict[str, None] = {}
    for cell in cells:
        attack = _arm(cell, "attack", "none")
        attacks[attack] = None
        row = ends[_arm(cell, "data", ""), _rule(cell)]
        if cell.slug in found:
            row[attack].append(found[cell.slug])
    order = sorted(attacks, key=lambda attack: attack != "none")
    several = len({data for data, _ in ends}) > 1
    head = (*(("data",) if several else ()), "rule", *("no attack" if each == "none" else each for each in order))
    rows = [
        (*((data,) if several else ()), rule, *(_text(by_attack[attack]) for attack in order))
        for (data, rule), by_attack in ends.items()
        if any(by_attack.values())
    ]
    return Table("", head, tuple(rows), left=2 if several else 1)


def price_of_shards(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> str:
    """Return how far each rule over shards is from plain averaging without an attack, over the seeds that both have."""
    plain = _plain(cells, found)
    gaps: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell in cells:
        compared = cell.slug in found and cell.experiment.seed in plain
        if compared and cell.experiment.sharded and cell.experiment.attack is None:
            log, other = found[cell.slug], plain[cell.experiment.seed]
            gaps[_rule(cell)].append((_gap(log, other), _gap(log, other, _LAST)))
    if not gaps:
        return ""
    told = "; ".join(f"{rule} {_distance(each)}" for rule, each in gaps.items())
    return f"Without an attack, in points beside plain averaging with the same seeds: {told}."


def interrupted(cells: Sequence[Cell], found: Mapping[str, RunLog], unfinished: Mapping[str, RunLog]) -> str:
    """Return what runs that were not finished had reached, beside plain averaging after as many rounds."""
    plain, told = _plain(cells, found), []
    gaps: list[tuple[float, float]] = []
    for cell in cells:
        log = unfinished.get(cell.slug)
        if cell.slug in found or log is None or not log.rounds:
            continue
        attack, seed = _arm(cell, "attack", "none"), cell.experiment.seed
        name = f"{_rule(cell)}, {'no attack' if attack == 'none' else attack}, seed {seed}"
        reached = f"{_text([log])} after {len(log.rounds)} of {log.header.rounds} rounds"
        if attack == "none" and seed in plain:
            told.append(f"{name}: {reached}, plain averaging then {_percent(plain[seed], len(log.rounds) - 1):.1f}")
            gaps.append((_gap(log, plain[seed]), _gap(log, plain[seed], _LAST)))
        else:
            told.append(f"{name}: {reached}")
    if not told:
        return ""
    text = f"Interrupted runs are not in the table. {'; '.join(told)}."
    if gaps:
        end, over = (fmean(gap[at] for gap in gaps) for at in (0, 1))
        text += f""" On average this is {end:+.1f} points beside plain averaging at the last of these rounds, and
        {over:+.1f} over the last {_LAST}."""
    return text


_LAST = 5
"""Rounds to average over, since single ones vary."""


def _plain(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> dict[int, RunLog]:
    """Return the runs of plain averaging without shards and attack, by seed."""
    every = (cell for cell in cells if cell.slug in found and not cell.experiment.sharded)
    return {cell.experiment.seed: found[cell.slug] for cell in every if cell.experiment.attack is None}


def _percent(log: RunLog, at: int) -> float:
    return 100 * (log.rounds[at].accuracy or 0)


def _gap(log: RunLog, plain: RunLog, rounds: int = 1) -> float:
    """Return the points between two runs, over the last rounds that the first one has."""
    last = len(log.rounds)
    return fmean(_percent(log, at) - _percent(plain, at) for at in range(max(0, last - rounds), last))


def _distance(gaps: Sequence[tuple[float, float]]) -> str:
    """Return the mean of the seeds' distances after the last round, and over the last rounds."""
    end, over = ([gap[at] for gap in gaps] for at in (0, 1))
    spread = f", {min(end):+.1f} to {max(end):+.1f}" if len(gaps) > 1 else ""
    return f"{fmean(end):+.1f} ({_seeds(len(gaps))}{spread}), over the last {_LAST} rounds {fmean(over):+.1f}"


def _seeds(count: int) -> str:
    return f"{count} seed" + ("s" if count > 1 else "")


def _arm(cell: Cell, name: str, otherwise: str) -> str:
    return cell.arm.get(name, otherwise)


def _rule(cell: Cell) -> str:
    rule = _arm(cell, "estimator", cell.experiment.estimator.title)
    return rule if cell.experiment.sharded else f"{rule}, no shards"


def _text(logs: Sequence[RunLog]) -> str:
    if not logs:
        return ""
    lasts = [log.rounds[-1] for log in logs]
    shown = _spread([last.accuracy for last in lasts if last.accuracy is not None])
    wins = [last.success for last in lasts if last.success is not None]
    return f"{shown}; backdoor {_spread(wins)}" if wins else shown


def _spread(shares: Sequence[float]) -> str:
    percent = [100 * share for share in shares]
    if not percent:
        return ""
    if len(percent) == 1:
        return f"{percent[0]:.1f}"
    return f"{fmean(percent):.1f} ({min(percent):.1f} to {max(percent):.1f})"
