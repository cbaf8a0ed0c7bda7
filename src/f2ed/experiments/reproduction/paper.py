"""The paper's figures: experiment files, the numbers stated in its text, and the released logs."""

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path

from f2ed.experiments.file import find

__all__ = ["FIGURES", "WORST_CASES", "experiment_file", "released", "sources", "stated"]

FIGURES = {
    "fig1": "fig1_iid",
    "fig2": "fig2_shards",
    "fig4": "fig4_noniid",
    "fig5": "fig5_noniid_shards",
    "fig6": "fig6_shard_count",
    "worst-case": "worst_case",
    "worst-few-classes": "worst_case_few_classes",
}
"""Figure 3 is not a grid of runs; see `distribution`."""

WORST_CASES = ("worst-case", "worst-few-classes")
"""Tables of our own, not figures of the paper."""


def experiment_file(figure: str) -> Path:
    """Return the path of a figure's experiment file."""
    return find(Path(FIGURES[figure]))


def sources() -> str:
    """Return the sources of the numbers."""
    return f"The paper's numbers: {_content('paper')['source']}. The released logs: {_content('released')['source']}."


def stated(figure: str, data: str, estimator: str) -> dict[str, float]:
    """Return what the paper states for an estimator, by attack, as shares of one; empty if nothing."""
    return _shares("paper", figure, data, estimator)


def released(figure: str, data: str, attack: str) -> dict[str, float]:
    """Return the final values of the released logs under an attack, by estimator; empty if there are none."""
    return _shares("released", figure, data, attack)


def _shares(name: str, figure: str, data: str, row: str) -> dict[str, float]:
    found = _content(name).get(figure, {}).get(data, {}).get(row, {})
    return {column: value / 100 for column, value in found.items()}


@cache
def _content(name: str) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    text = resources.files("f2ed.experiments.reproduction").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
