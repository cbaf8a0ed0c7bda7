"""The progress of `f2ed run`: a live table on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from f2ed.experiments import Cell, Event
from f2ed.records import RunLog

__all__ = ["follow"]

_SECONDS_BETWEEN_LINES = 10.0


class _Board:
    """The state of every run, as a table."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = cells
        self.logs: dict[int, RunLog] = {}
        self.kinds: dict[int, str] = {}
        self.began = time.monotonic()
        self.taken = 0
        """Rounds run by this command, without those of earlier ones."""

    def note(self, event: Event) -> None:
        self.logs[event.cell], self.kinds[event.cell] = event.log, event.kind
        self.taken += event.kind == "round"

    @property
    def left(self) -> float | None:
        """Estimated seconds to go."""
        if not self.taken:
            return None
        to_go = sum(
            cell.experiment.rounds - len(self.logs[index].rounds) if index in self.logs else cell.experiment.rounds
            for index, cell in enumerate(self.cells)
        )
        return (time.monotonic() - self.began) / self.taken * to_go

    def line(self, index: int) -> tuple[str, ...]:
        """Return name, rounds, accuracy, attack success and seconds per round."""
        cell, log = self.cells[index], self.logs.get(index)
        done = 0 if log is None else len(log.rounds)
        if log is None or not log.rounds:
            return cell.name, f"{done}/{cell.experiment.rounds}", "", "", ""
        last = log.rounds[-1]
        success = "" if last.success is None else f"{100 * last.success:.1f} %"
        state = "done before" if self.kinds.get(index) == "skipped" else f"{last.seconds.total:.2f} s"
        accuracy = "" if last.accuracy is None else f"{100 * last.accuracy:.1f} %"
        return cell.name, f"{done}/{cell.experiment.rounds}", accuracy, success, state

    def __rich__(self) -> Table:
        left = "" if self.left is None else f", about {_clock(self.left)} left"
        done = sum(kind in {"finished", "skipped"} for kind in self.kinds.values())
        caption = f"{done} of {len(self.cells)} runs done after {_clock(time.monotonic() - self.began)}{left}"
        table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left")
        table.add_column("run")
        for column in ("round", "accuracy", "attack success", "time per round"):
            table.add_column(column, justify="right")
        for index in self._shown():
            table.add_row(*self.line(index), style="dim" if index not in self.kinds else None)
        return table

    def _shown(self) -> list[int]:
        """Return all runs if they are few, else the active ones and some around them."""
        every = list(range(len(self.cells)))
        if len(every) <= 30:
            return every
        active = [index for index in every if self.kinds.get(index) in {"began", "round"}]
        done = [index for index in every if self.kinds.get(index) in {"finished", "skipped"}][-15:]
        waiting = [index for index in every if index not in self.kinds]
        return sorted([*done, *active, *waiting[: 30 - len(done) - len(active)]])


def follow(cells: Sequence[Cell], events: Iterator[Event], console: Console) -> list[RunLog]:
    """Show the progress of the runs; return their logs in the order of the cells."""
    board = _Board(cells)
    live = Live(board, console=console, refresh_per_second=4) if console.is_terminal else None
    last_line = 0.0
    with live or nullcontext():
        for event in events:
            board.note(event)
            if live is None and (event.kind != "round" or time.monotonic() - last_line > _SECONDS_BETWEEN_LINES):
                last_line = time.monotonic()
                _print(event, board, console)
    return [board.logs[index] for index in range(len(cells))]


def _print(event: Event, board: _Board, console: Console) -> None:
    name, rounds, accuracy, success, _ = board.line(event.cell)
    figures = f", accuracy {accuracy}" if accuracy else ""
    figures += f", attack success {success}" if success else ""
    left = f", about {_clock(board.left)} left" if event.kind == "round" and board.left is not None else ""
    state = {"began": "started", "round": "running", "finished": "done", "skipped": "done before"}[event.kind]
    console.print(f"{name}, {state}: round {rounds}{figures}{left}", soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
