"""Numbers for other tools while a run goes on; MLflow and Weights & Biases where they are installed."""

import json
import subprocess
import sys

import pytest

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.records import read
from f2ed.report import sinks
from f2ed.report.sinks import Sink, Stream

from .report_runs import header, save


@pytest.fixture
def log(tmp_path):
    return read(save(tmp_path, header(digest="0123456789abcdef" * 4)))


class _Listed(Stream):
    def __init__(self, found):
        self.found = found

    def send(self, record):
        self.found.append(record.round)

    def close(self, *, finished):
        self.found.append("finished" if finished else "interrupted")


class _List(Sink):
    def __init__(self):
        super().__init__()
        self.found = []

    def open(self, header, rounds):  # noqa: ARG002
        return _Listed(self.found)


def test_every_round_is_sent_once(log):
    sink = _List()
    for count in range(len(log.rounds) + 1):
        sink.follow(log._replace(rounds=log.rounds[:count]), finished=False)
    sink.follow(log, finished=True)
    sink.close()
    assert sink.found == [*(record.round for record in log.rounds), "finished"]


def test_an_interrupted_run_is_closed_as_such(log):
    sink = _List()
    sink.follow(log._replace(rounds=log.rounds[:1]), finished=False)
    sink.close()
    assert sink.found == [log.rounds[0].round, "interrupted"]


@pytest.mark.parametrize("where", ["", "tensorboard", "tensorboard:", "folder", "neptune:x"])
def test_an_unknown_tool_is_refused(where):
    with pytest.raises(ConfigError, match="write tensorboard:FOLDER, mlflow:ADDRESS or wandb:PROJECT"):
        sinks.sink(where)


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow", "wandb"])
def test_a_tool_that_is_not_installed_is_named(kind, monkeypatch, tmp_path):
    for module in (kind, "tensorboard.compat.proto.event_pb2"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"f2ed\[{kind}\]"):
        sinks.sink(f"{kind}:{tmp_path}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_tensorboard_reads_the_rounds(log, tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    sinks.send(log, f"tensorboard:{tmp_path}")
    (file,) = tmp_path.glob("*/events.out.tfevents.*")
    steps = [event.step for event in loader.LegacyEventFileLoader(str(file)).Load() if event.summary.value]
    assert steps == [record.round for record in log.rounds]


@pytest.mark.filterwarnings("ignore")
def test_mlflow_holds_the_rounds_and_a_resumed_run_goes_on(log, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more packages
    address = tmp_path.as_uri()
    for count in (1, len(log.rounds)):
        sinks.send(log._replace(rounds=log.rounds[:count]), f"mlflow:{address}")
    client = mlflow.MlflowClient(address)
    (run,) = client.search_runs([client.get_experiment_by_name("f2ed").experiment_id])
    assert run.info.run_name == log.header.name
    history = client.get_metric_history(run.info.run_id, "round/accuracy")
    assert [(each.step, each.value) for each in history] == [(each.round, each.accuracy) for each in log.rounds]
    assert run.data.params["clients"] == str(log.header.settings["clients"])


@pytest.mark.filterwarnings("ignore")
def test_an_mlflow_that_does_not_answer_is_named(monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ConfigError, match="cannot be used at"):
        sinks.sink("mlflow:http://127.0.0.1:9")


@pytest.mark.filterwarnings("ignore")
def test_wandb_keeps_the_rounds_offline(log, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    sinks.send(log, "wandb:f2ed-test")
    (folder,) = tmp_path.glob("wandb/offline-run-*")
    assert folder.name.endswith(log.header.digest[:16])


def test_f2ed_run_sends_its_numbers(tmp_path):
    pytest.importorskip("tensorboard")
    settings = 'title="t"\ndata="digits"\nclients=6\nshards=2\nrounds=2\nestimator="mean"\n'
    (tmp_path / "small.toml").write_text(settings)
    command = [sys.executable, "-m", "f2ed.cli", "run", "small.toml", "--log-to", "tensorboard:events", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["results"]
    assert list((tmp_path / "events").glob("*/events.out.tfevents.*"))
