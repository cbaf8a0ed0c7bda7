"""The transparency log: signed lines by every node, the server and the helpers, and the checks that compare them."""

from f2ed.deployment.transparency.chain import Authors, Checked
from f2ed.deployment.transparency.compare import Comparison, compare_logs, verify_logs
from f2ed.deployment.transparency.findings import MEANINGS, Finding
from f2ed.deployment.transparency.heads import Heads
from f2ed.deployment.transparency.lines import Line, read_line, write_line
from f2ed.deployment.transparency.server import ServerLog, server_log
from f2ed.deployment.transparency.store import LogFile, PlannedLines, log_lines

__all__ = [
    "MEANINGS",
    "Authors",
    "Checked",
    "Comparison",
    "Finding",
    "Heads",
    "Line",
    "LogFile",
    "PlannedLines",
    "ServerLog",
    "compare_logs",
    "log_lines",
    "read_line",
    "server_log",
    "verify_logs",
    "write_line",
]
