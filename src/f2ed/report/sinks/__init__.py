"""Numbers of runs for other tools, while they run: TensorBoard, MLflow, Weights & Biases."""

from pathlib import Path

from f2ed.core.errors import ConfigError
from f2ed.records import RunLog
from f2ed.report.sinks.base import Sink, Stream
from f2ed.report.sinks.mlflow import MLflow
from f2ed.report.sinks.tensorboard import EventFile, TensorBoard
from f2ed.report.sinks.wandb import WandB

__all__ = ["EventFile", "MLflow", "Sink", "Stream", "TensorBoard", "WandB", "send", "sink"]


def sink(where: str) -> Sink:
    """Return the tool that `where` names: `tensorboard:FOLDER`, `mlflow:ADDRESS` or `wandb:PROJECT`."""
    kind, _, target = where.partition(":")
    if kind in {"tensorboard", "mlflow", "wandb"} and target:
        return TensorBoard(Path(target)) if kind == "tensorboard" else {"mlflow": MLflow, "wandb": WandB}[kind](target)
    raise ConfigError(f"found {where!r}; write tensorboard:FOLDER, mlflow:ADDRESS or wandb:PROJECT")


def send(log: RunLog, *where: str) -> None:
    """Send all rounds of a run, such as `run.log`, to other tools."""
    for each in map(sink, where):
        each.follow(log, finished=log.finished)
        each.close()
