"""Look at runs: a page (live or in one file), figures for papers, and exports. Reads records and nothing else."""

from f2ed.report.page import PageSummary, write_page
from f2ed.report.reading import Problem, Run, read_runs

__all__ = ["PageSummary", "Problem", "Run", "read_runs", "write_page"]
