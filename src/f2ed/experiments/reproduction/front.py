"""Passages of other pages that are made of records: worst cases, weaknesses and limitations."""

from collections.abc import Iterator
from pathlib import Path

from f2ed.experiments.reproduction.comparison import OURS, Table
from f2ed.experiments.reproduction.differences import weaknesses
from f2ed.experiments.reproduction.figure import tables
from f2ed.experiments.reproduction.page import Reproduced, reproduced
from f2ed.experiments.reproduction.paper import WORST_CASES
from f2ed.experiments.reproduction.patient import patient
from f2ed.experiments.reproduction.quoted import fill, measured
from f2ed.experiments.reproduction.worst_case import broken

__all__ = ["BEGIN", "END", "advice", "between", "front", "limitations", "table_of"]

BEGIN, END = "<!-- from the records: begin -->", "<!-- from the records: end -->"


def front(results: Path, text: str) -> str:
    """Return a page with the worst cases of both experiments, for the most attackers, between its markers."""
    every = [reproduced(name, results) for name in WORST_CASES]
    body = _joined(*map(table_of, every)).markdown() if all(each.found for each in every) else "It was not run.\n"
    return between(text, f"{body}\n{patient(results)}")


def advice(results: Path, text: str) -> str:
    """Return the page on choosing an estimator with the measured weaknesses between its markers."""
    return between(text, weaknesses(*(reproduced(name, results).ends for name in ("fig1", "fig5"))))


def between(text: str, body: str) -> str:
    """Replace what is between the markers of a page."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{body}{END}{after}"


def _caption(each: Reproduced) -> str:
    runs = f"{len(each.found)} of {len(each.cells)} runs were done: `f2ed reproduce {each.name}`."
    return f"**{each.file.title}.** {each.file.about} {runs}"


def table_of(each: Reproduced) -> Table:
    """Return the worst-case table of an experiment."""
    (table,) = tables(each.name, each.cells, each.found)
    return table


def _joined(even: Table, few: Table) -> Table:
    """Join the rows with shards of both worst cases, in the order of the first."""
    most, head = even.rows[0][0], [even.head[1]]
    for partition in ("i.i.d.", "few classes"):
        head += [f"{partition}: no attack", "worst accuracy", "worst backdoor"]
    others = {row[1]: row[2:5] for row in few.rows if row[0] == most}
    missing = ("not run",) * 3
    rows = tuple((*row[1:5], *others.get(row[1], missing)) for row in even.rows if row[0] == most)
    return Table("", tuple(head), rows)


def limitations(results: Path, text: str) -> str:
    """Return the page on the worst case with what FilterL2 does not stop, and the tables, between its markers."""
    every = [reproduced(name, results) for name in WORST_CASES]
    if not all(each.found for each in every):
        return between(text, "It was not run.\n")
    sentences = [sentence for each in every for sentence in _unstopped(each)]
    body = ["## What FilterL2 does not stop\n", "".join(f"- {sentence}\n" for sentence in sentences)]
    body += [_stealthy(reproduced("fig1", results)), patient(results)]
    body += [f"## {each.file.title}\n\n{_caption(each)}\n\n{table_of(each).markdown()}" for each in every]
    return between(text, "\n".join(body))


def _unstopped(each: Reproduced) -> Iterator[str]:
    """Describe, by shards and number of attackers, the attacks against which FilterL2 does not hold."""
    places = broken(each.cells, each.found, OURS)
    for (shards, malicious), attacks in places.items():
        if attacks:
            where = "without shards" if shards == "none" else f"with {shards} shards"
            yield f"{each.file.title}, {where}, {malicious} of 100 clients malicious: {', '.join(attacks)}."
    held = sum(not attacks for attacks in places.values())
    if held:
        rounds = max(cell.experiment.rounds for cell in each.cells)
        yield (
            f"{each.file.title}: it held against every listed attack, for {rounds} rounds, in {held} of {len(places)} "
            "settings."
        )


def _stealthy(iid: Reproduced) -> str:
    """Describe DBA without shards, whose updates agree better than honest ones."""
    end = measured(iid.ends, "mnist", "DBA (released)", OURS)
    if end is None:
        return "A stealthy backdoor over many rounds was not run.\n"
    return fill(
        f"""**A stealthy, patient backdoor.** DBA from the first round, by 5 of 20 clients without shards, reached
        {100 * end.mean:.0f} % success against FilterL2 after 30 rounds ([Reproducing the paper](reproducing.md)). The
        worst cases below last 8 rounds only, so they say nothing about attackers that stay below the filter's threshold
        for longer."""
    )
