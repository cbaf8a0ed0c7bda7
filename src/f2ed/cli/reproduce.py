"""`f2ed reproduce`: a figure of the paper, from its runs to a picture and a table beside the paper's numbers."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.table import Table as Grid

from f2ed.cli.pictures import draw
from f2ed.cli.run import carry_out
from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.experiments import File, expand, read
from f2ed.experiments.reproduction.comparison import Table, agreement
from f2ed.experiments.reproduction.costs import costs
from f2ed.experiments.reproduction.distribution import Distribution, distribution
from f2ed.experiments.reproduction.figure import standing, tables
from f2ed.experiments.reproduction.outcomes import Panel, matched, panels
from f2ed.experiments.reproduction.paper import FIGURES, WORST_CASES, experiment_file, sources
from f2ed.learning.datasets import Mnist
from f2ed.records import RunLog, locate, read_all
from f2ed.records.reader import find
from f2ed.report.quantiles import draw_quantiles

__all__ = ["reproduce"]

Figure = Literal["fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "worst-case", "worst-few-classes", "all"]


def reproduce(
    figure: Annotated[Figure, Parameter(help="A figure of the paper, a worst case, or all of them.")],
    /,
    *,
    quick: Annotated[
        bool, Parameter(negative="", help="A small network and few rounds: minutes on two cores, same conclusions.")
    ] = False,
    from_: Annotated[
        tuple[Path, ...],
        Parameter(name="--from", negative="", help="Run nothing: take records from here; may be given again."),
    ] = (),
    full: Annotated[Path, Parameter(help="Where records of full runs lie, to check --quick with.")] = Path("results"),
    device: Annotated[str, Parameter(help="cpu, cuda, cuda:1 …; auto is a GPU where there is one.")] = "auto",
    data: Annotated[Path | None, Parameter(help="Look for data sets here first.")] = None,
    out: Annotated[Path, Parameter(help="Where records, tables and figures go.")] = Path("runs"),
    jobs: Annotated[int, Parameter(help="How many runs at once, each in a process of its own.")] = 1,
    part: Annotated[tuple[str, ...], Parameter(negative="", help="Run only this part of the figure's file.")] = (),
    only: Annotated[tuple[str, ...], Parameter(negative="", help="Run only those whose name contains this.")] = (),
) -> None:
    """Reproduce a figure of the paper, and compare the numbers.

    The table sets what was measured beside each number that the paper's text states, over the seeds there are. What was
    not run is said. The whole grid of a figure is hours of a GPU: its file has parts, of which the first matter most
    (f2ed reproduce fig2 --part stated). The records are those of f2ed run, and are shared with it.

    Example: f2ed reproduce fig2 --quick --jobs 2

    Example: f2ed reproduce fig2 --part stated --part mnist --device cuda

    Example: f2ed reproduce fig2 --from results/fig2_shards
    """
    console = Console(highlight=False)
    if quick and part:
        raise ConfigError("--quick is a version of its own and has no parts; leave --part out, or choose by --only")
    for name in [*FIGURES, "fig3"] if figure == "all" else [figure]:
        console.rule(name)
        if name == "fig3":
            found = _recorded(from_) if from_ else _measured(out, quick=quick, device=device, data=data)
            _distribution(found, out / ("fig3-quick" if quick else "fig3"), console)
            continue
        path = experiment_file(name)
        file = read(path).quickly() if quick else read(path)
        folder = out / (f"{path.stem}-quick" if quick else path.stem)
        if not from_:
            carry_out(file.only_parts(part), folder, console, device=device, only=only, jobs=jobs, data=data)
        logs = _logs(from_ or (folder,))
        _conclude(name, file, logs, folder, console, full=full if quick else None, alone=figure != "all")


def _logs(folders: Sequence[Path]) -> list[RunLog]:
    return [log for path in find(folders).values() for log in read_all(path)]


def _conclude(
    name: str, file: File, logs: Sequence[RunLog], folder: Path, console: Console, *, full: Path | None, alone: bool
) -> None:
    """Say what came of the runs; a quick version is set beside full runs, and a full one beside the paper."""
    cells = expand(file)
    found = matched(cells, logs)
    if not found:
        missing = f"no finished run of {file.path} is among the {len(logs)} records; run some of it first"
        if alone:
            raise ConfigError(missing)
        console.print(missing, soft_wrap=True)
        return
    ends = panels(cells, found)
    made, said = tables(name, cells, found, beside=full is None), standing(name, cells, found)
    if full is not None and name not in WORST_CASES:
        table, sentence = _agreement(name, ends, full)
        made, said = [*made, table], [*said, sentence]
    cost = f"{len(found)} of {len(cells)} runs are there: {costs(found.values(), logs)}."
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "table.md"
    page.write_text(_page(file, made, [*said, cost]), encoding="utf-8")
    console.print(file.about, soft_wrap=True)
    for table in made:
        _print(table, console)
    for sentence in [*said, cost]:
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"Table: {page}", soft_wrap=True)
    try:
        for picture in draw(name, cells, found, folder / "figures"):
            console.print(f"Figure: {picture}", soft_wrap=True)
    except MissingExtra as missing_extra:
        console.print(f"No figure was drawn: {missing_extra}", soft_wrap=True, markup=False)


def _page(file: File, made: Sequence[Table], said: Sequence[str]) -> str:
    parts = [f"# {file.title}\n", f"{file.about}\n"]
    parts += [f"## {table.title}\n\n{table.markdown()}" for table in made]
    parts += ["".join(f"- {sentence}\n" for sentence in said), f"{sources()}\n"]
    return "\n".join(parts)


def _agreement(name: str, quick: Sequence[Panel], full: Path) -> tuple[Table, str]:
    """Check the quick version's conclusions with the full runs there are."""
    path = experiment_file(name)
    whole, there = expand(read(path)), full / path.stem
    others = _logs([there]) if locate(there).exists() else []
    return agreement(quick, panels(whole, matched(whole, others)))


def _measured(out: Path, *, quick: bool, device: str, data: Path | None) -> Distribution:
    found = distribution(Mnist()(data), quick=quick, device="cpu" if device == "auto" else device)
    folder = out / ("fig3-quick" if quick else "fig3")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "distribution.json").write_bytes(msgspec.json.encode(found))
    return found


def _recorded(folders: Sequence[Path]) -> Distribution:
    for folder in folders:
        for path in sorted(folder.rglob("distribution.json")):
            return msgspec.json.decode(path.read_bytes(), type=Distribution)
    raise ConfigError(f"no distribution.json is in {', '.join(map(str, folders))}; f2ed reproduce fig3 makes it")


def _distribution(found: Distribution, folder: Path, console: Console) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sentences = list(found.sentences())
    text = "".join(f"- {sentence}\n" for sentence in sentences)
    (folder / "table.md").write_text(f"# Figure 3\n\n{found.table().markdown()}\n{text}", encoding="utf-8")
    _print(found.table(), console)
    for sentence in sentences:
        console.print(f"- {sentence}", soft_wrap=True)
    try:
        sides = {"Five clients of one shard": found.clients, "The five shard means": found.shards}
        draw_quantiles(sides, folder / "distribution.svg")
        console.print(f"Figure: {folder / 'distribution.svg'}", soft_wrap=True)
    except MissingExtra as missing:
        console.print(f"No figure was drawn: {missing}", soft_wrap=True, markup=False)


def _print(table: Table, console: Console) -> None:
    grid = Grid(box=box.SIMPLE_HEAD, title=table.title, title_justify="left")
    for number, name in enumerate(table.head):
        grid.add_column(name, justify="left" if number < table.left else "right")
    for row in table.rows:
        grid.add_row(*row)
    if console.is_terminal:
        console.print(grid)
    else:  # a table as wide as it is, for a file or a pipe
        sys.stdout.write(f"{table.title}\n\n{table.markdown()}\n")
