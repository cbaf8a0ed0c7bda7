"""`f2ed reproduce`: run, draw and tabulate a figure of the paper next to the published numbers."""

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
from f2ed.experiments import ExperimentFile, expand, read
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

__all__ = ["print_table", "reproduce"]

Figure = Literal["fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "worst-case", "worst-few-classes", "all"]


def reproduce(
    figure: Annotated[Figure, Parameter(help="A figure of the paper, a worst case, or all of them.")],
    /,
    *,
    quick: Annotated[
        bool, Parameter(negative="", help="A small network and few rounds: minutes on two cores.")
    ] = False,
    from_: Annotated[
        tuple[Path, ...],
        Parameter(name="--from", negative="", help="Run nothing: read records from here; may be repeated."),
    ] = (),
    full: Annotated[Path, Parameter(help="Folder of full runs, to check --quick against.")] = Path("results"),
    device: Annotated[str, Parameter(help="cpu, cuda, cuda:1 …; auto uses a GPU if there is one.")] = "auto",
    data: Annotated[Path | None, Parameter(help="Look for data sets here first.")] = None,
    out: Annotated[Path, Parameter(help="Where to put records, tables and figures.")] = Path("runs"),
    jobs: Annotated[int, Parameter(help="Number of runs in parallel, each in its own process.")] = 1,
    part: Annotated[tuple[str, ...], Parameter(negative="", help="Run only this part of the figure's file.")] = (),
    only: Annotated[tuple[str, ...], Parameter(negative="", help="Run only those whose name contains this.")] = (),
) -> None:
    """Reproduce a figure of the paper, and compare the numbers.

    The table compares our results, over all available seeds, with each number stated in the paper, and shows what was
    not run. The full grid of a figure takes hours on a GPU; its file has parts, the most important ones first
    (f2ed reproduce fig2 --part stated). The records are shared with f2ed run.

    Example: f2ed reproduce fig2 --quick --jobs 2

    Example: f2ed reproduce fig2 --part stated --part mnist --device cuda

    Example: f2ed reproduce fig2 --from results/fig2_shards
    """
    console = Console(highlight=False)
    if quick and part:
        raise ConfigError("--quick has no parts; omit --part, or choose runs with --only")
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
    name: str,
    file: ExperimentFile,
    logs: Sequence[RunLog],
    folder: Path,
    console: Console,
    *,
    full: Path | None,
    alone: bool,
) -> None:
    """Show the results; a quick version is compared with full runs, a full one with the paper."""
    cells = expand(file)
    found = matched(cells, logs)
    if not found:
        missing = f"none of the {len(logs)} records is a finished run of {file.path}; run it first"
        if alone:
            raise ConfigError(missing)
        console.print(missing, soft_wrap=True)
        return
    ends = panels(cells, found)
    made, text = tables(name, cells, found, compare=full is None), standing(name, cells, found)
    if full is not None and name not in WORST_CASES:
        table, sentence = _agreement(name, ends, full)
        made, text = [*made, table], [*text, sentence]
    cost = f"{len(found)} of {len(cells)} runs are available: {costs(found.values(), logs)}."
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "table.md"
    page.write_text(_page(file, made, [*text, cost]), encoding="utf-8")
    console.print(file.about, soft_wrap=True)
    for table in made:
        print_table(table, console)
    for sentence in [*text, cost]:
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"Table: {page}", soft_wrap=True)
    try:
        for picture in draw(name, cells, found, folder / "figures"):
            console.print(f"Figure: {picture}", soft_wrap=True)
    except MissingExtra as missing_extra:
        console.print(f"No figure was drawn: {missing_extra}", soft_wrap=True, markup=False)


def _page(file: ExperimentFile, made: Sequence[Table], text: Sequence[str]) -> str:
    parts = [f"# {file.title}\n", f"{file.about}\n"]
    parts += [f"## {table.title}\n\n{table.markdown()}" for table in made]
    parts += ["".join(f"- {sentence}\n" for sentence in text), f"{sources()}\n"]
    return "\n".join(parts)


def _agreement(name: str, quick: Sequence[Panel], full: Path) -> tuple[Table, str]:
    """Check the conclusions of the quick version against the available full runs."""
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
    raise ConfigError(
        f"there is no distribution.json in {', '.join(map(str, folders))}; create it with f2ed reproduce fig3"
    )


def _distribution(found: Distribution, folder: Path, console: Console) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sentences = list(found.sentences())
    text = "".join(f"- {sentence}\n" for sentence in sentences)
    (folder / "table.md").write_text(f"# Figure 3\n\n{found.table().markdown()}\n{text}", encoding="utf-8")
    print_table(found.table(), console)
    for sentence in sentences:
        console.print(f"- {sentence}", soft_wrap=True)
    try:
        sides = {"Five clients of one shard": found.clients, "The five shard means": found.shards}
        draw_quantiles(sides, folder / "distribution.svg")
        console.print(f"Figure: {folder / 'distribution.svg'}", soft_wrap=True)
    except MissingExtra as missing:
        console.print(f"No figure was drawn: {missing}", soft_wrap=True, markup=False)


def print_table(table: Table, console: Console) -> None:
    """Print a table, drawn on a terminal and as Markdown elsewhere."""
    grid = Grid(box=box.SIMPLE_HEAD, title=table.title, title_justify="left")
    for number, name in enumerate(table.head):
        grid.add_column(name, justify="left" if number < table.left else "right")
    for row in table.rows:
        grid.add_row(*row)
    if console.is_terminal:
        console.print(grid)
    else:  # full width, for a file or a pipe
        sys.stdout.write(f"{table.title}\n\n{table.markdown()}\n")
