"""A run in hand: its rounds as they happen, its records, its model, and how both look."""

import threading
from collections.abc import Iterator
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.learning.saved import save_model
from f2ed.records import RoundRecord, RunHeader, RunLog
from f2ed.records.columns import COUNTS, NUMBERS, numbers
from f2ed.records.text import percent

if TYPE_CHECKING:
    from f2ed.simulation.checkpoint import SimulationState
    from f2ed.simulation.run import Simulation

__all__ = ["Run"]

_CURVES = {"accuracy": "accuracy", "success": "attack success", "loss": "loss", "metric": "metric"}
_UNBOUNDED = {"loss", "metric"}
_SHOWN_ROUNDS = 20


class Run:
    """The rounds of a simulation: each is run when it is first asked for, and kept.

    Iterating runs the rounds that are left, one at a time, and may be repeated. `records`, `model`, `save_model`,
    `to_frame`, `to_table` and `plot` finish the run first; `header`, `log` and the representations show what there is.
    """

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._state: SimulationState = simulation.start()
        self._done: list[RoundRecord] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[RoundRecord]:
        """Yield every round's record, from the first on."""
        at = 0
        while self._has(at):
            yield self._done[at]
            at += 1

    @property
    def header(self) -> RunHeader:
        """What is run, and with what."""
        return self._simulation.header

    @property
    def log(self) -> RunLog:
        """The header and the rounds so far; nothing is run."""
        return RunLog(self.header, tuple(self._done))

    @property
    def records(self) -> tuple[RoundRecord, ...]:
        """The records of all rounds."""
        return tuple(self)

    def model(self) -> nn.Module:
        """Return the model after the last round, on the CPU and ready to predict."""
        self._finish()
        return self._simulation.model(self._state)

    def save_model(self, path: Path | str) -> None:
        """Write the model after the last round as safetensors; another run can begin with it: `start = path`."""
        if not isinstance(path, str | PathLike):
            raise ConfigError(f"save_model: found a {type(path).__name__}; give the path of a file")
        try:
            save_model(Path(path), self.model(), digest=self.header.digest)
        except OSError as error:
            raise ConfigError(f"the model cannot be saved to {path}: {error.strerror}") from None

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per round; what is not known is NaN."""
        try:
            import pandas as pd  # noqa: PLC0415  optional
        except ModuleNotFoundError:
            raise ConfigError(
                "to_frame needs pandas, which is not installed; install it (pip install pandas), or use to_table"
            ) from None
        return pd.DataFrame({name: [*map(_or_nan, each)] for name, each in self._columns().items()}).set_index("round")

    def to_table(self) -> Any:
        """Return a pyarrow Table with one row per round; what is not known is null."""
        try:
            import pyarrow as pa  # noqa: PLC0415  optional
        except ModuleNotFoundError:
            raise MissingExtra("to_table", "parquet") from None
        kinds = {"round": pa.int64()} | {name: pa.int64() if name in COUNTS else pa.float64() for name in NUMBERS}
        return pa.table(self._columns(), schema=pa.schema(list(kinds.items())))

    def plot(self) -> Any:
        """Return a matplotlib Figure: accuracy and loss by round, and the success of a targeted attack."""
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415  optional
        except ModuleNotFoundError:
            raise MissingExtra("plot", "report") from None
        columns = self._columns()
        shown = [name for name in _CURVES if any(value is not None for value in columns[name])]
        figure = Figure(figsize=(4 * max(1, len(shown)), 3), layout="constrained")
        for panel, name in zip(figure.subplots(1, max(1, len(shown)), squeeze=False)[0], shown, strict=False):
            panel.plot(columns["round"], [_or_nan(value) for value in columns[name]])
            panel.set(xlabel="round", ylabel=_CURVES[name], ylim=None if name in _UNBOUNDED else (0, 1))
            panel.grid(alpha=0.4)
        return figure

    def __repr__(self) -> str:
        """Name the run, and say how far it is."""
        early = f", ended early: {self._state.patience.ended}" if self._state.patience.ended else ""
        return f"<Run {self.header.name}: {len(self._done)} of {self.header.rounds} rounds{_ended(self._done)}{early}>"

    def _repr_html_(self) -> str:
        """Return a table of the latest rounds for a notebook; nothing is run."""
        shown = self._done[-_SHOWN_ROUNDS:]
        names = [name for name in _CURVES if any(numbers(record)[name] is not None for record in shown)]
        head = "".join(f"<th>{escape(word)}</th>" for word in ("round", *(_CURVES[name] for name in names), "skipped"))
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(record, names)) + "</tr>" for record in shown
        )
        return f"<p>{escape(repr(self)[1:-1])}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _finish(self) -> None:
        for _ in self:
            pass

    def _has(self, at: int) -> bool:
        """Run rounds until this one is there; return whether there is such a round."""
        with self._lock:
            while len(self._done) <= at:
                if self._simulation.ended(self._state):
                    return False
                self._state, record = self._simulation.step(self._state)
                self._done.append(record)
        return True

    def _columns(self) -> dict[str, list[float | None]]:
        rows = [{"round": record.round} | numbers(record) for record in self]
        return {name: [row[name] for row in rows] for name in ("round", *NUMBERS)}


def _cells(record: RoundRecord, names: list[str]) -> Iterator[str]:
    yield str(record.round)
    for name in names:
        value = numbers(record)[name]
        yield "" if value is None else f"{value:.4g}" if name in _UNBOUNDED else percent(value)
    yield record.skipped or ""


def _ended(done: list[RoundRecord]) -> str:
    if not done:
        return ""
    last = done[-1]
    if last.accuracy is not None:
        return f", accuracy {percent(last.accuracy)}"
    return "" if last.loss is None else f", loss {last.loss:.4g}"


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
