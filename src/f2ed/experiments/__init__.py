"""Experiment files: TOML settings whose lists span a grid of runs, and a runner that resumes."""

from f2ed.experiments.file import ExperimentFile, find, read
from f2ed.experiments.grid import Cell, expand
from f2ed.experiments.runner import Event, prepare, run_all, run_cell
from f2ed.experiments.summary import RunResult, Summary, summarize

__all__ = [
    "Cell",
    "Event",
    "ExperimentFile",
    "RunResult",
    "Summary",
    "expand",
    "find",
    "prepare",
    "read",
    "run_all",
    "run_cell",
    "summarize",
]
