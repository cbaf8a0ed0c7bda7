"""`f2ed up`: what it refuses before it starts anything. That it works is shown in tests/deployment."""

import os
import signal
import warnings
from pathlib import Path

import pytest

pytest.importorskip("flwr")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.clientapp  # noqa: F401  its dependencies' deprecations are not ours

import numpy as np
from flwr.app import ArrayRecord

from f2ed import ConfigError, Mean
from f2ed.cli.up import _terminated_like_interrupted, up
from f2ed.core.errors import PeerError
from f2ed.flower.checkpoint import Progress, save

EXAMPLE = Path(__file__).parents[2] / "examples" / "04_flower"


def test_a_folder_without_an_app_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is not a Flower app"):
        up(tmp_path)


def test_an_app_that_takes_no_roster_is_told_how_to(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.flwr.app]\npublisher = 'me'\n")
    with pytest.raises(ConfigError, match="add f2ed-roster"):
        up(tmp_path)


def test_shards_of_fewer_than_three_are_refused():
    with pytest.raises(ConfigError, match="use --nodes 9"):
        up(EXAMPLE, nodes=6, shards=3)


def test_a_setting_that_the_app_has_not_is_refused_with_those_it_has():
    with pytest.raises(ConfigError, match="it has: num-rounds"):
        up(EXAMPLE, config=("rounds=3",))


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="is not empty"):
        up(EXAMPLE, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_app_may_say_how_many_nodes_and_shards_it_wants(tmp_path, monkeypatch):
    asked = {}

    class Stop(Exception):
        pass

    def deployment(_place, **numbers):
        asked.update(numbers)
        raise Stop

    monkeypatch.setattr("f2ed.cli.up.Deployment", deployment)
    for app, numbers in ((EXAMPLE, (6, 2)), (EXAMPLE.parent / "05_flower_malicious", (12, 4))):
        with pytest.raises(Stop):
            up(app)
        assert (asked["nodes"], asked["shards"]) == numbers
    (tmp_path / "pyproject.toml").write_text(
        '[tool.flwr.app.config]\nf2ed-roster = ""\n[tool.f2ed.up]\nnodes = "many"\n'
    )
    with pytest.raises(ConfigError, match="it may state nodes and shards"):
        up(tmp_path)


def test_helpers_are_three_operators_and_the_app_gets_the_servers_key(monkeypatch, tmp_path):
    asked = {}

    class Fake:
        def __init__(self, _place, **given):
            asked.update(given)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def run(self, _app, settings):
            asked.update(settings)
            yield from ()

    monkeypatch.setattr("f2ed.cli.up.Deployment", Fake)
    with pytest.raises(ConfigError, match="the app left no records"):
        up(EXAMPLE, protocol="helpers", nodes=12, rule="mean", clip_norm=3.0, folder=tmp_path / "kept")
    assert (asked["nodes"], asked["shards"]) == (12, 4)
    assert (asked["helpers"].settings.size, asked["helpers"].rule, asked["helpers"].clip_norm) == (3, Mean(), 3.0)
    assert asked["f2ed-server-key"] == str(tmp_path / "kept" / "server" / "server.key")


@pytest.mark.parametrize(
    ("app", "given", "wrong"),
    [
        (EXAMPLE, {"shards": 2}, "--shards 2 with --protocol helpers"),
        (EXAMPLE, {"nodes": 5}, "use --nodes 6"),
        (EXAMPLE, {"rule": "median"}, "coordinates"),
        (EXAMPLE.parent / "05_flower_malicious", {}, "the app has no setting f2ed-server-key"),
    ],
)
def test_what_does_not_work_with_helpers_is_refused(app, given, wrong):
    with pytest.raises(ConfigError, match=wrong):
        up(app, protocol="helpers", **given)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_and_a_closed_terminal_unwind(number):
    before = {each: signal.signal(each, signal.SIG_DFL) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(SystemExit) as ended, _terminated_like_interrupted():
            os.kill(os.getpid(), number)
        assert ended.value.code == 128 + number
        assert signal.getsignal(number) == signal.SIG_DFL
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with _terminated_like_interrupted():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@pytest.fixture
def deployment(monkeypatch):
    """Put a deployment of one's own in place of the real one; its run is a function of the folder."""

    def install(run):
        class Fake:
            def __init__(self, place, **_):
                self.place = place

            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def run(self, _app, settings):
                yield "INFO: f2ed: round 1: model updated"
                run(settings)

        monkeypatch.setattr("f2ed.cli.up.Deployment", Fake)

    return install


def finished(settings):
    arrays = ArrayRecord([np.arange(3.0, dtype=np.float32)])
    save(Path(settings["f2ed-checkpoint"]), Progress(1, arrays, 0), roster="trial")
    Path(settings["f2ed-records"]).write_text("")


def test_the_model_is_saved_and_the_next_step_named(deployment, tmp_path, capsys):
    deployment(finished)
    up(EXAMPLE, folder=tmp_path / "kept")
    out = capsys.readouterr().out
    assert "round 1: model updated" in out
    assert f"f2ed report {tmp_path / 'kept' / 'run.jsonl'}" in out
    with np.load(tmp_path / "kept" / "model.npz") as model:
        (array,) = model.values()
        assert array.tolist() == [0.0, 1.0, 2.0]


def test_a_run_that_failed_fails_the_command_and_keeps_the_model_so_far(deployment, tmp_path, capsys):
    def failed(settings):
        finished(settings)
        raise PeerError("run 7 ended as failed")

    deployment(failed)
    with pytest.raises(PeerError, match="run 7 ended as failed"):
        up(EXAMPLE, folder=tmp_path / "kept")
    assert "FAILED after" in capsys.readouterr().out
    assert (tmp_path / "kept" / "model.npz").exists()


def test_a_run_without_records_fails_and_says_where_to_look(deployment, tmp_path, capsys):
    deployment(lambda _: None)
    with pytest.raises(ConfigError, match="the app left no records"):
        up(EXAMPLE)
    assert "Use --folder to keep the model" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="the app left no records"):
        up(EXAMPLE, folder=tmp_path / "kept")
    assert "The logs of all processes are in" in capsys.readouterr().out
