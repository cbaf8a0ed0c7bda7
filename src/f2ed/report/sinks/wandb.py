"""Runs in Weights & Biases."""

from collections.abc import Sequence
from typing import Any

from f2ed.core.errors import MissingExtra
from f2ed.records import RoundRecord, RunHeader
from f2ed.report.arms import flat
from f2ed.report.sinks.base import Sink, Stream, values

__all__ = ["WandB"]


class WandB(Sink):
    """A project; `WANDB_MODE=offline` keeps the runs on this machine until `wandb sync`."""

    def __init__(self, project: str) -> None:
        super().__init__()
        try:
            import wandb  # noqa: PLC0415  an optional dependency
        except ModuleNotFoundError:
            raise MissingExtra("Weights & Biases", "wandb") from None
        self._library, self._project = wandb, project

    def open(self, header: RunHeader, rounds: Sequence[RoundRecord]) -> Stream:  # noqa: ARG002  known by its step
        """Continue the run of these settings, or begin one."""
        run = self._library.init(
            project=self._project,
            id=header.digest[:16],
            name=header.name,
            config=flat(header.settings),
            resume="allow",
            reinit="create_new",
            settings=self._library.Settings(silent=True, console="off"),
        )
        return _WandBRun(run)


class _WandBRun(Stream):
    def __init__(self, run: Any) -> None:
        self._run = run
        self._next = int(run.step)

    def send(self, record: RoundRecord) -> None:
        if record.round >= self._next:
            self._run.log(values(record), step=record.round)

    def close(self, *, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
