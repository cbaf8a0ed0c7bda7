"""The page: a single HTML file that works without a network."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from f2ed.core.errors import MissingExtra
from f2ed.core.files import write_atomic
from f2ed.records import grading
from f2ed.records.intake import Problem
from f2ed.records.reader import read_runs
from f2ed.report.payload import SHOWN_ROUNDS, payload

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["FRAGMENTS", "PageSummary", "check_installed", "fragments", "render", "write_page"]

FRAGMENTS = ("verdict", "problems", "privacy", "runs")
"""The parts of the page that are rendered here, and sent again to a live page when they change."""


class PageSummary(NamedTuple):
    """What was written, and where."""

    path: Path
    runs: int
    headline: str
    problems: tuple[Problem, ...]


def write_page(paths: Sequence[Path], out: Path, *, title: str = "", about: str = "") -> PageSummary:
    """Write the page about all runs in files and folders; `about` is a line under the title."""
    runs, problems = read_runs(paths, SHOWN_ROUNDS)
    data = payload(runs, problems)
    text = render(data, about=about, title=title or (paths[0].resolve().stem if len(paths) == 1 else "Runs"))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, text.encode(), mode=0o666)
    return PageSummary(out, len(runs), data["verdict"]["headline"], tuple(problems))


def render(data: Mapping[str, Any], *, title: str, about: str = "", live: str = "") -> str:
    """Return the page; `live` is the address of its updates, "" if it is not live."""
    sources = files("f2ed.report") / "page"
    return (
        _templates()
        .get_template("page.html")
        .render(
            title=title,
            about=about,
            live=live,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            html=fragments(data),
            grades=_grades(),
            # Inside a script nothing but "<" could end it.
            records=msgspec.json.encode(data).decode().replace("<", "\\u003c"),
            style=(sources / "page.css").read_text(encoding="utf-8"),
            script=(sources / "page.js").read_text(encoding="utf-8"),
            plotly=_plotly(),
        )
    )


def check_installed() -> None:
    """Raise `MissingExtra` unless everything that the page needs is installed."""
    _templates()
    _plotly()


def _grades() -> dict[str, str]:
    limits = {
        "margin": grading.MARGIN,
        "lost_much": grading.LOST_MUCH,
        "success_little": grading.SUCCESS_LITTLE,
        "success_much": grading.SUCCESS_MUCH,
    }
    return {name: f"{100 * limit:g}" for name, limit in limits.items()}


def fragments(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts that are HTML from the start."""
    return {name: _templates().get_template(f"{name}.html").render(data) for name in FRAGMENTS}


@cache
def _templates() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  an optional dependency
    except ModuleNotFoundError:
        raise MissingExtra("the page", "report") from None
    loader = PackageLoader("f2ed.report", "page")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415  an optional dependency
    except ModuleNotFoundError:
        raise MissingExtra("the page", "report") from None
    return str(get_plotlyjs())
