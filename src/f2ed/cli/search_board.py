"""The progress of `f2ed search`: a live table on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import nullcontext

from msgspec import UNSET
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from f2ed.experiments.search import Search, Status

__all__ = ["follow"]


class _Board:
    """The state of every study, as a table."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.began = time.monotonic()
        self.before = sum(study.ended for study in search.studies)
        self.last: dict[str, Status] = {}

    def note(self, status: Status) -> None:
        self.last[status.study] = status

    @property
    def left(self) -> str:
        """Estimated time to go."""
        ended = sum(study.ended for study in self.search.studies)
        if ended == self.before:
            return ""
        to_go = len(self.search.studies) * self.search.plan.budget - ended
        minutes = (time.monotonic() - self.began) / (ended - self.before) * max(to_go, 0) / 60
        return f", about {minutes:.0f} min left" if minutes >= 1 else ", less than a minute left"

    def __rich__(self) -> Table:
        minutes, seconds = divmod(round(time.monotonic() - self.began), 60)
        caption = f"{minutes} min {seconds:02d} s{self.left}; Ctrl-C stops, the same command resumes"
        table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left")
        table.add_column("study")
        for column in ("tried", "stopped early", "worst so far", "attack", "now"):
            table.add_column(column, justify="right")
        for study in self.search.studies:
            best, now = study.best, self.last.get(study.label)
            kind = (
                "" if best is None or best.experiment.attack is None else best.experiment.attack.__struct_config__.tag
            )
            table.add_row(
                study.label,
                f"{study.ended}/{self.search.plan.budget}",
                str(study.stopped),
                "" if best is None else f"{100 * best.harm:.1f} %",
                str(kind),
                "" if now is None else f"round {now.record.round + 1}",
            )
        return table


def follow(search: Search, events: Iterator[Status], console: Console) -> None:
    """Show the progress of a search until it ends."""
    board = _Board(search)
    live = Live(board, console=console, refresh_per_second=1) if console.is_terminal else None
    with live or nullcontext():
        for status in events:
            board.note(status)
            if live is None and status.event != "round":
                console.print(_line(status) + board.left, soft_wrap=True)


def _line(status: Status) -> str:
    record = status.record
    accuracy = "" if record.accuracy is None else f", accuracy {100 * record.accuracy:.1f} %"
    success = "" if record.success is None else f", attack success {100 * record.success:.1f} %"
    if record.success_unpoisoned is not UNSET:
        success += f" ({100 * record.success_unpoisoned:.1f} % against a clean model)"
    what = {
        "honest": "done",
        "round": "running",
        "tried": f"trial {status.trial}",
        "stopped": f"trial {status.trial} stopped after round {record.round + 1}",
        "better": f"trial {status.trial}, the worst so far",
        "confirmed": "another seed",
    }[status.event]
    return f"{status.study}: {what}{accuracy}{success}"
