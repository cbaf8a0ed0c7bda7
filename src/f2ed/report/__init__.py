"""Reports from records alone: a page (live or in one file), figures for papers, and exports."""

from f2ed.report.page import PageSummary, write_page

__all__ = ["PageSummary", "write_page"]
