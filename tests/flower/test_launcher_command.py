"""`f2ed node` and its companions: what they refuse before they start anything, and what they start."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.cli.app  # noqa: F401

from f2ed import ConfigError
from f2ed.cli.app import app
from f2ed.flower import launcher
from f2ed.flower.launcher import NodeOptions, app_command, app_environment, check_options
from f2ed.flower.node_agent import Place, place_for
from tests.flower.node_bench import Bench


@pytest.fixture
def options(tmp_path):
    bench = Bench(tmp_path)
    (tmp_path / "ca.crt").write_text("a certificate")
    return NodeOptions(bench.roster, bench.authority, bench.identity, "superlink:8000", tmp_path / "ca.crt")


@pytest.mark.parametrize("name", ["node", "executor", "operator", "up"])
def test_the_help_keeps_its_example(name, capsys):
    with pytest.raises(SystemExit):
        app([name, "--help"])
    assert f"Example: f2ed {name}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "option",
    [
        *("--insecure", "--ins", "--trusted-entities=/tmp/x", "--trusted", "--tr"),
        *("--allow-runtime-dependency-installation", "--allow", "--a", "--isolation=subprocess", "--iso"),
        *("--host=0.0.0.0", "--superexec-auth-secret-file", "--node-config", "--clientappio-api-address", "-V"),
    ],
)
def test_an_option_of_flower_that_would_weaken_the_node_is_refused_however_it_is_spelled(options, option):
    with pytest.raises(ConfigError, match="is not passed on to flower-supernode"):
        check_options(options._replace(further=(option, "x")))


def test_options_that_are_harmless_are_passed_on(options):
    check_options(options._replace(further=("--max-retries", "3", "--max-wait-time=60")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"port": 0}, "invalid port 0"),
        ({"node_config": 'f2ed-key="/tmp/other.key"'}, "give it as --key instead"),
        ({"node_config": 'f2ed-roster="/tmp/other.json"'}, "give it as --roster instead"),
        ({"node_config": 'f2ed-agent="/tmp/other"'}, "f2ed node starts an agent itself"),
        ({"node_config": "settings.toml"}, "is no setting"),
        ({"preload": "no_such_module"}, "which is not installed"),
        ({"preload": "none", "app_secret": Path("secret")}, "give --preload to f2ed executor instead"),
    ],
)
def test_contradicting_options_are_refused(options, change, message):
    with pytest.raises(ConfigError, match=message):
        check_options(options._replace(**change))


def test_a_missing_file_is_named(options, tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.crt is not a file"):
        check_options(options._replace(root_certificates=tmp_path / "gone.crt"))


def test_the_roster_may_be_a_folder_and_a_missing_one_is_named(options, tmp_path):
    check_options(options._replace(roster=tmp_path))
    with pytest.raises(ConfigError, match=r"gone\.json is neither a file nor a folder with all serials"):
        check_options(options._replace(roster=tmp_path / "gone.json"))


def test_flower_gets_absolute_paths_the_check_of_apps_and_a_secret(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = options._replace(
        key=options.key.relative_to(tmp_path), node_config='partition-id=3 f2ed-dp-epsilon=8.0 data="/a b"'
    )
    given = launcher._arguments(relative, tmp_path / "trusted", tmp_path / "secret", tmp_path / "agent")
    pairs = dict(zip(given[::2], given[1::2], strict=True))
    assert pairs["--isolation"] == "process"
    assert pairs["--host"] == "127.0.0.1"
    assert pairs["--trusted-entities"] == str(tmp_path / "trusted")
    assert pairs["--superexec-auth-secret-file"] == str(tmp_path / "secret")
    assert pairs["--node-config"] == f'f2ed-agent="{tmp_path}/agent" partition-id=3 data="/a b"'
    assert launcher.agent_settings(relative) == {
        "f2ed-dp-epsilon": 8.0,
        "f2ed-key": str(options.key),
        "f2ed-roster": str(options.roster),
        "f2ed-authority": str(options.authority),
    }


def test_a_node_says_which_apps_it_runs_and_which_risks_its_roster_takes(tmp_path, caplog):
    caplog.set_level("INFO", "f2ed.flower")
    bench = Bench(tmp_path, accepted=("evaluate", "leak"))
    launcher.announce(bench.gate().roster())
    assert "this node runs clinics/good 1.0.0 (" in caplog.text
    assert "ACCEPTED RISK evaluate" in caplog.text
    assert "ACCEPTED RISK leak" in caplog.text
    bench.approve()
    launcher.announce(bench.gate().roster())
    assert "this node runs no app" in caplog.text
    (tmp_path / "any").mkdir()
    unpinned = Bench(tmp_path / "any", accepted=("unpinned-app",))
    unpinned.approve()
    launcher.announce(unpinned.gate().roster())
    assert "this node runs ANY APP" in caplog.text


def test_apps_get_few_variables_and_no_secrets():
    mine = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "FLWR_HOME": "/old", "DATA": "/data", "HOME": "/root"}
    assert app_environment(mine, ["DATA", "ABSENT"]) == {
        "PATH": "/bin",
        "DATA": "/data",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


def test_apps_of_another_user_have_no_privileges_and_cannot_get_any(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    words = app_command("nobody", ["python"])
    assert words[0] == "setpriv"
    assert words[-1] == "python"
    assert {"--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--init-groups"} < set(words)
    assert app_command("", ["python"]) == ["python"]


@pytest.mark.parametrize(
    ("user", "me", "message"),
    [
        ("nobody", 1000, "only root may run apps as nobody"),
        ("root", 0, "is the node's own user"),
        ("no-such-user", 0, "there is no user no-such-user"),
    ],
)
def test_an_app_user_that_gives_no_separation_is_refused(user, me, message, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: me)
    with pytest.raises(ConfigError, match=message):
        app_command(user, [sys.executable])


def test_the_agent_listens_for_this_user_in_a_folder_of_its_own():
    place = place_for("", None)
    try:
        assert (place.uid, place.mode) == (os.geteuid(), 0o600)
        assert place.path.parent.stat().st_mode & 0o777 == 0o700
    finally:
        place.path.parent.rmdir()


def test_the_agent_listens_for_the_apps_user_where_it_may_enter():
    place = place_for("54321", None)
    try:
        assert (place.uid, place.mode) == (54321, 0o600)
        assert place.path.parent.stat().st_mode & 0o777 == 0o711
    finally:
        place.path.parent.rmdir()


def test_the_agent_listens_beside_the_secret_of_an_executor_that_is_started_apart(tmp_path):
    assert place_for("54321", tmp_path / "secret") == Place(tmp_path / "agent", 54321, 0o660)


def test_an_unknown_user_of_apps_is_named():
    with pytest.raises(ConfigError, match="there is no user not-here"):
        place_for("not-here", None)
