"""Write docs/reproducing.md, and what other pages take from the records under results/.

    python docs/scripts/reproducing.py

A test compares the committed pages with what this makes of the committed records.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
from differences import dealt_anew, differences, where_it_is_weak
from quoted import logs_of

from f2ed.cli.pictures import draw
from f2ed.experiments import Cell, ExperimentFile, expand, read
from f2ed.experiments.reproduction.comparison import OURS, THEIRS, Table, agreement, beside_the_paper, number
from f2ed.experiments.reproduction.costs import costs
from f2ed.experiments.reproduction.distribution import Distribution
from f2ed.experiments.reproduction.figure import standing, tables
from f2ed.experiments.reproduction.outcomes import Panel, matched, panels
from f2ed.experiments.reproduction.paper import FIGURES, WORST_CASES, released, sources, stated
from f2ed.records import RunLog
from f2ed.report.quantiles import draw_quantiles

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "figures" / "reproduced"
BEGIN, END = "<!-- from the records: begin -->", "<!-- from the records: end -->"

HEAD = """# Reproducing the paper

Every figure of the paper (Wang et al. 2021) is one command, and so is a version of each for a few minutes of two cores:

```console
$ f2ed reproduce fig2 --part stated --part mnist     # a GPU; what was run before is not repeated
$ f2ed reproduce fig2 --quick --jobs 2               # a CPU; a small network, checked against the full runs
$ f2ed reproduce fig2 --from results/fig2_shards     # nothing but the tables and the figure, from records
```

This page is made by `python docs/scripts/reproducing.py` from the records under `results/`, and quotes no measurement
that is not in them. Accuracy and success are those after the last round, in percent. *Not run* means just that, or
not to the end.
"""

READING = """## How to read it

- **FilterL2** is ours: exact, and without a scale to set. **FilterL2 (paper)** is the authors': each tensor in sections
  of 1,000 coordinates, sigma = 1e-6, eta = 20, and an epsilon that is not scaled to the shards.
- An attack marked **(released)** is what the code released with the paper runs, the source of its numbers; one without
  the mark is as its inventors define it. The authors' MRA replaces no model: nothing is scaled up, the trigger is a
  faint gray square on MNIST and black on black on most of Fashion-MNIST, and images of the target class count as
  successes, so that one in ten is the floor. Their MPA has no benign reference and shows its ten images with rows and
  columns exchanged; it moves in steps of 10 points. Their DBA measures one of the four bars and never the whole
  trigger. **MRA (shard)** is boosted by the size of the attacker's shard, so that the mean of the shard becomes the
  backdoored model.
- Two seeds of the same setting may differ by half a point of accuracy on MNIST, and by more than a point where clients
  have three labels each. Smaller differences mean little.
- The paper's bound, 12 · malicious < shards, holds in none of its own settings; nor, so, here.
- Seconds are those of the wall clock. Where several runs shared the device, its own time for each is said too.
- The spoilt weight is what rows with an attacker had in the last five rounds, all rows together having 100 %; a row is
  the mean of a shard, or a client where there are no shards. Where it is nothing, what the attack seems to get is the
  model's own mistake.
"""


class Reproduced(NamedTuple):
    """A figure's file, and what was run of it."""

    name: str
    file: ExperimentFile
    cells: list[Cell]
    found: dict[str, RunLog]
    ends: list[Panel]
    logs: list[RunLog]
    """All that was run, also for other figures."""


def reproduced(name: str, results: Path) -> Reproduced:
    """Read what there is of a figure; a run of one figure may be one of another's too."""
    file = read(ROOT / "experiments" / f"{FIGURES[name]}.toml")
    cells = expand(file)
    logs = [log for stem in FIGURES.values() for log in logs_of(results / stem)]
    found = matched(cells, logs)
    return Reproduced(name, file, cells, found, panels(cells, found), logs)


def page(results: Path) -> str:
    """Return the page."""
    every = [reproduced(name, results) for name in FIGURES if name not in WORST_CASES]
    parts = [HEAD, "".join(_worst_first(every, results)), READING]
    by_name = {each.name: each for each in every}
    ends = {name: each.ends for name, each in by_name.items()}
    parts.append(differences(ends, by_name["fig2"].found.values(), results))
    for each in every:
        parts.append(_figure(each))
        parts += _quick(each, results)
        if each.name == "fig2":
            parts.append(_distribution(results / "fig3" / "distribution.json"))
        if each.name == "fig5":
            parts.append(dealt_anew(each.ends, results))
    parts.append(f"{sources()}\n")
    return "\n".join(parts)


def _worst_first(every: list[Reproduced], results: Path) -> Iterator[str]:
    yield "## Where it falls short, first\n\n"
    for each in reversed(every):
        if each.name in {"fig2", "fig5"}:
            said = standing(each.name, each.cells, each.found)
            yield f"**{each.file.title}.** The paper claims the best rule, or close to it, in every panel.\n\n"
            yield "".join(f"- {sentence}\n" for sentence in said) or "- None of it was run.\n"
            yield "".join(
                f"- Quick version, a small network: {sentence}\n" for sentence in _quick_standing(each, results)
            )
            yield "\n"
    yield "**Against the paper's own numbers.**\n\n"
    rows = [(each.name, row) for each in every for row in beside_the_paper(each.name, each.ends).rows]
    for name, row in rows:
        if row[-1] in {"worse", "within half a point"}:
            believed = f"; rows with an attacker had {row[5]} of the weight" if row[5] else ""
            theirs = released(name, row[0], row[1]).get(row[3])
            record = "" if theirs is None else f"; the authors' own record {100 * theirs:.2f}"
            remarks = f"({row[-1]}){record}{believed}"
            yield f"- {name}, {row[0]}, {row[1]}: {row[2]} {row[4]}, the paper {row[7]} {remarks}.\n"
    verdicts = Counter(row[-1] for _, row in rows)
    counted = ", ".join(
        f"{verdicts[verdict]} {verdict}" for verdict in ("as good or better", "within half a point", "worse", "not run")
    )
    yield (
        f"- Of {len(rows)} comparisons with a number that the text states: {counted}. DBA is in it twice: with the "
        "network of the released code, and with the ResNet18 that the paper's appendix names.\n\n"
    )
    by_name = {each.name: each for each in every}
    yield "".join(_do_shards_help(by_name["fig4"], by_name["fig5"]))


def _quick_standing(each: Reproduced, results: Path) -> list[str]:
    """Say the same of the quick version, where it was run."""
    logs = logs_of(results / f"{FIGURES[each.name]}-quick")
    cells = expand(each.file.quickly()) if logs else []
    return standing(each.name, cells, matched(cells, logs))


def _do_shards_help(without: Reproduced, within: Reproduced) -> Iterator[str]:
    """Set FilterL2, ours and the authors', without shards beside the same with them, where clients have few labels."""
    before, after = (100 * stated(figure, "mnist", OURS)["KA"] for figure in ("fig4", "fig5"))
    yield "**Do shards help where clients have few labels?** "
    yield f"The paper says so: under KA {before:.2f} without and {after:.2f} with them.\n\n"
    alone = {panel.attack: panel for panel in without.ends}
    rows = []
    for panel in within.ends:
        other = alone.get(panel.attack)
        if other is not None and panel.arms.get(OURS) and other.arms.get(OURS):
            ends = (number(each.arms.get(arm)) for arm in (OURS, THEIRS) for each in (other, panel))
            rows.append((panel.attack, panel.measure, *ends))
    columns = (f"{arm}, {where}" for arm in (OURS, THEIRS) for where in ("no shards", "25 shards"))
    table = Table("", ("attack", "measured", *columns), tuple(rows), 2)
    yield f"{table.markdown()}\nIts own filter needs them there; the exact one does not.\n" if rows else "Not run.\n"


def _figure(each: Reproduced) -> str:
    lines = [f"## {each.file.title}\n", f"{each.file.about} Settings: `experiments/{Path(each.file.path).name}`.\n"]
    if not each.found:
        return "\n".join([*lines, f"None of its {len(each.cells)} runs was made.\n"])
    made = tables(each.name, each.cells, each.found)
    lines += [f"### {table.title}: {each.name}\n\n{table.markdown()}" for table in made]
    drawn = sorted(PICTURES.glob(f"{each.name}-*.svg"))
    lines += [f"![{each.file.title}: {path.stem}](figures/reproduced/{path.name})\n" for path in drawn]
    if each.name == "fig6":
        lines += [f"{sentence}\n" for sentence in standing(each.name, each.cells, each.found)]
    lines.append(
        f"{len(each.found)} of the file's {len(each.cells)} runs were made: {costs(each.found.values(), each.logs)}.\n"
    )
    return "\n".join(lines)


def _quick(each: Reproduced, results: Path) -> Iterator[str]:
    """Set who holds in the quick version beside who holds in the full one."""
    logs = logs_of(results / f"{FIGURES[each.name]}-quick")
    if not logs:
        return
    cells = expand(each.file.quickly())
    ends = panels(cells, matched(cells, logs))
    table, sentence = agreement(ends, each.ends)
    yield (
        f"### The quick version: {each.name}\n\n`f2ed reproduce {each.name} --quick`. A rule holds if it is at most 2 "
        "points below averaging without an attack, or is fooled on at most a quarter of the attacker's images. Of the "
        "learning rates that were tried in Figure 2 (0.1, 0.02 and 0.005) the last was taken, since TMA hurt averaging "
        "most there, as it does in the full runs. So that agreement was sought and proves little. "
        f"{sentence}\n\n{table.markdown()}"
    )


def _distribution(path: Path) -> str:
    lines = ["## Figure 3: updates before and after sharding\n"]
    lines.append("25 clients, five for each pair of labels, in five shards; one round from the same model.\n")
    if not path.exists():
        return "\n".join([*lines, "It was not run; `f2ed reproduce fig3` does.\n"])
    found = msgspec.json.decode(path.read_bytes(), type=Distribution)
    lines.append(found.table().markdown())
    lines.append("![Figure 3: weights within updates](figures/reproduced/fig3-distribution.svg)\n")
    lines.append("".join(f"- {sentence}\n" for sentence in found.sentences()))
    return "\n".join(lines)


def front(results: Path, text: str, *, short: bool = False) -> str:
    """Return a front page with the worst cases between its marks; if short, only with shards and most malicious."""
    every = [reproduced(name, results) for name in WORST_CASES]
    if not all(each.found for each in every):
        body = "It was not run.\n"
    else:
        body = _short(*(_table(each) for each in every)).markdown()
        if not short:
            body = "\n".join([body, *(f"{_caption(each)}\n\n{_table(each).markdown()}" for each in every)])
    return _between(text, body)


def advice(results: Path, text: str) -> str:
    """Return the page on choosing an estimator with what the runs say of it between its marks."""
    return _between(text, where_it_is_weak(*(reproduced(name, results).ends for name in ("fig1", "fig5"))))


def _between(text: str, body: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{body}{END}{after}"


def _caption(each: Reproduced) -> str:
    runs = f"{len(each.found)} of {len(each.cells)} runs were made: `f2ed reproduce {each.name}`."
    return f"**{each.file.title}.** {each.file.about} {runs}"


def _table(each: Reproduced) -> Table:
    (table,) = tables(each.name, each.cells, each.found)
    return table


def _short(even: Table, few: Table) -> Table:
    """Return the rows with shards of both worst cases side by side, in the order of the first."""
    most, head = even.rows[0][0], [even.head[1]]
    for labels in ("all labels", "few labels"):
        head += [f"{labels}: no attack", "worst accuracy", "worst backdoor"]
    beside = {row[1]: row[2:5] for row in few.rows if row[0] == most}
    missing = ("not run",) * 3
    rows = tuple((*row[1:5], *beside.get(row[1], missing)) for row in even.rows if row[0] == most)
    return Table("", tuple(head), rows)


def draw_all(results: Path) -> None:
    """Draw what was run of each figure, but for the worst cases, which are tables."""
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    if (path := results / "fig3" / "distribution.json").exists():
        found = msgspec.json.decode(path.read_bytes(), type=Distribution)
        sides = {"Five clients of one shard": found.clients, "The five shard means": found.shards}
        draw_quantiles(sides, PICTURES / "fig3-distribution.svg")
    for each in (reproduced(name, results) for name in FIGURES if name not in WORST_CASES):
        if each.found:
            with TemporaryDirectory() as folder:
                for path in draw(each.name, each.cells, each.found, Path(folder)):
                    PICTURES.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, PICTURES / f"{each.name}-{path.name}")


def main() -> None:
    """Write the pages and the pictures."""
    docs, results = ROOT / "docs", ROOT / "results"
    draw_all(results)
    (docs / "reproducing.md").write_text(page(results), encoding="utf-8")
    for path in (docs / "index.md", ROOT / "README.md"):
        made = front(results, path.read_text(encoding="utf-8"), short=path.name == "README.md")
        path.write_text(made, encoding="utf-8")
    chosen = docs / "choosing_estimator.md"
    chosen.write_text(advice(results, chosen.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
