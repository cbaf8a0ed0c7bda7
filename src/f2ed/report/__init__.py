"""Look at runs: a page (live or in one file), figures for papers, and exports. Reads records and nothing else."""

from f2ed.report.page import PageSummary, write_page

__all__ = ["PageSummary", "write_page"]
