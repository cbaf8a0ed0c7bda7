"""Runs in MLflow: parameters, metrics by round, and tags that name the record."""

from collections.abc import Sequence
from typing import Any

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.records import RoundRecord, RunHeader
from f2ed.report.arms import flat
from f2ed.report.sinks.base import Sink, Stream, values

__all__ = ["MLflow"]

_EXPERIMENT = "f2ed"
_DIGEST = "f2ed.digest"
_LONGEST = 500
"""Characters of a parameter that every MLflow server takes."""


class MLflow(Sink):
    """A tracking server, database or folder. A run that was interrupted continues under the same MLflow run."""

    def __init__(self, address: str) -> None:
        super().__init__()
        try:
            from mlflow import MlflowClient  # noqa: PLC0415  an optional dependency
            from mlflow.exceptions import MlflowException  # noqa: PLC0415  an optional dependency
        except ModuleNotFoundError:
            raise MissingExtra("MLflow", "mlflow") from None
        try:
            self._client = MlflowClient(address)
            found = self._client.get_experiment_by_name(_EXPERIMENT)
            self._experiment = found.experiment_id if found else self._client.create_experiment(_EXPERIMENT)
        except (MlflowException, OSError, ImportError) as error:
            said = str(error).splitlines()[0].partition(". ")[0]
            raise ConfigError(f"MLflow cannot be used at {address!r} ({said}); check the address") from None

    def open(self, header: RunHeader, rounds: Sequence[RoundRecord]) -> Stream:  # noqa: ARG002  MLflow knows its own
        """Continue the MLflow run of these settings, or begin one."""
        query = f"tags.`{_DIGEST}` = '{header.digest}'"
        found = self._client.search_runs([self._experiment], filter_string=query, max_results=1)
        if found:
            run = found[0].info.run_id
            self._client.update_run(run, status="RUNNING")
            history = self._client.get_metric_history(run, "seconds/total")
            return _MLflowRun(self._client, run, after=max((each.step for each in history), default=-1))
        tags = {_DIGEST: header.digest, "mlflow.source.name": "f2ed"}
        run = self._client.create_run(self._experiment, run_name=header.name, tags=tags).info.run_id
        for name, value in flat(header.settings).items():
            self._client.log_param(run, name, value[:_LONGEST])
        return _MLflowRun(self._client, run, after=-1)


class _MLflowRun(Stream):
    def __init__(self, client: Any, run: str, *, after: int) -> None:
        self._client, self._run, self._after = client, run, after

    def send(self, record: RoundRecord) -> None:
        if record.round <= self._after:
            return
        for name, value in values(record).items():
            self._client.log_metric(self._run, name, value, step=record.round)
        self._client.log_metric(self._run, "seconds/total", record.seconds.total, step=record.round)

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._run, status="FINISHED" if finished else "KILLED")
