"""Experiment files: one TOML states what is run, lists in it make a grid, and a run takes up where it was left."""

from f2ed.experiments.file import File, read
from f2ed.experiments.grid import Cell, expand
from f2ed.experiments.runner import Event, prepare, run_all, run_cell
from f2ed.experiments.summary import Summary, summarize

__all__ = ["Cell", "Event", "File", "Summary", "expand", "prepare", "read", "run_all", "run_cell", "summarize"]
