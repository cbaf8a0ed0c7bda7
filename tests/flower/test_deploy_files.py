"""The files to copy, and the commands of the page, against the commands that are installed."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from f2ed.cli.app import app

yaml = pytest.importorskip("yaml")  # Flower brings it.
flwr = pytest.importorskip("flwr")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.cli.app

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMPOSE = sorted((ROOT / "deploy" / "containers").glob("*.yaml"))
PAGES = [ROOT / "docs" / "deploy_flower.md", ROOT / "docs" / "operations.md", ROOT / "deploy" / "README.md"]
APPS = [
    *sorted((ROOT / "examples").glob("*/pyproject.toml")),
    ROOT / "benchmarks" / "flower_app" / "pyproject.toml",
    *sorted((ROOT / "tests" / "real_deployment").glob("*/pyproject.toml")),
]
FLOWER = ("flower-superlink", "flower-supernode")


@pytest.fixture(scope="module")
def options():
    """Return the options of Flower's commands, from their own help."""
    found = {}
    for name in FLOWER:
        command = [str(Path(sys.executable).parent / name), "--help"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[name] = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown, re.MULTILINE))
        assert len(found[name]) > 8
    return found


def commands(text):
    """Return the command lines of a page's shell blocks, with continued lines joined and comments left out."""
    blocks = [block.partition("```")[0] for block in re.split(r"```sh\n", text)[1:]]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def started(unit):
    """Return the command that a unit starts."""
    text = unit.read_text().replace("\\\n", " ")
    return shlex.split(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])


def known(words, options):
    """Return the name of a command of Flower's or of ours, all of whose options exist."""
    name = Path(words[0]).name
    if name == "f2ed":
        parsed = app.parse_args([word for word in words[1:] if word != "…"], exit_on_error=False, print_error=False)
        return f"f2ed {parsed[0].__name__}"
    if name != "nginx":
        assert name in FLOWER
        given = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
        assert given <= options[name], f"{name} has no {sorted(given - options[name])}"
    return name


def is_protected(name, words):
    """Say whether a command lets nothing go without TLS, authentication and a signature of the app."""
    assert "--insecure" not in words
    text = " ".join(words).replace("=", " ")
    wanted = {
        "flower-superlink": ["--enable-supernode-auth", "--ssl-keyfile", "--host 127.0.0.1"],
        "f2ed node": [
            "--auth-supernode-private-key",
            "--roster",
            "--authority",
            "--key",
            "--app-secret /run/f2ed/secret",
        ],
        "f2ed executor": ["--secret /run/f2ed/secret"],
        "nginx": ["-c /etc/f2ed/nginx.conf"],
        "f2ed metrics": ["--out", "--certificate"],
    }
    return all(each in text for each in wanted[name])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_what_there_is(unit, options):
    assert is_protected(known(started(unit), options), started(unit))
    files = re.findall(r"^EnvironmentFile=/etc/f2ed/(.*)$", unit.read_text(), re.MULTILINE)
    given = "".join((unit.parent / name).read_text() for name in files)
    for variable in re.findall(r"\$\{(\w+)\}", unit.read_text()):
        assert f"{variable}=" in given


def test_apps_run_as_another_user_than_the_node_and_without_a_network():
    user = {unit.stem: re.search(r"^User=(.*)$", unit.read_text(), re.MULTILINE)[1] for unit in UNITS}
    assert user["f2ed-executor"] != user["f2ed-supernode"]
    assert "IPAddressDeny=any\nIPAddressAllow=localhost" in (UNITS[0].parent / "f2ed-executor.service").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to check its units")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    for unit in UNITS:
        text = unit.read_text().replace("/opt/f2ed/bin", str(Path(sys.executable).parent))
        text = text.replace("/usr/sbin/nginx", sys.executable)  # which is not on every machine that has systemd
        (tmp_path / unit.name).write_text(text)
    names = [str(tmp_path / unit.name) for unit in UNITS]
    command = [shutil.which("systemd-analyze"), "verify", "--man=no", *names]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert not [line for line in checked.stderr.splitlines() if "f2ed-super" in line]


@pytest.mark.parametrize("compose", COMPOSE, ids=lambda compose: compose.stem)
def test_a_compose_file_starts_what_there_is(compose, options):
    for service in yaml.safe_load(compose.read_text())["services"].values():
        name = known(service["command"], options)
        assert is_protected(name, service["command"])
        assert service["cap_drop"] == ["ALL"]
        if probe := service.get("healthcheck"):
            assert known(probe["test"][1:], options) == "f2ed health"
        # Only the proxy listens for others.
        assert bool(service.get("ports")) == (name == "nginx")


def test_the_proxy_lets_nodes_use_all_their_routes_but_those_that_register():
    text = (ROOT / "deploy" / "nginx" / "nginx.conf").read_text()
    routes = set(re.findall(r'"/v1/fleet/([a-z-]+)"', source("supernode", "fleet_http_client.py")))
    (allowed,) = re.findall(r'"~\^POST /v1/fleet/\(([a-z|-]+)\)\$" 1;', text)
    assert set(allowed.split("|")) == routes - {"register-node", "unregister-node"}


def test_the_proxy_lets_the_operator_use_all_control_routes():
    text = (ROOT / "deploy" / "nginx" / "nginx.conf").read_text()
    (allowed,) = re.findall(r'"~(\^POST /v1/control/\S+\$)" 1;', text)
    routes = re.findall(r'"(/v1/control/[^"]+)"', source("supercore", "control", "control_http_client.py"))
    assert len(routes) > 10
    assert all(re.match(allowed, f"POST {route}") for route in routes)


def source(*path):
    return Path(flwr.__file__).parent.joinpath(*path).read_text()


@pytest.mark.parametrize("project", APPS, ids=lambda project: project.parent.name)
def test_no_app_asks_a_package_index_for_f2ed(project):
    """Flower installs what an app depends on; f2ed is installed beforehand, from the source tree."""
    wanted = tomllib.loads(project.read_text())["project"]["dependencies"]
    assert [name for name in wanted if re.match(r"f2ed\b", name)] == []


@pytest.mark.parametrize("folder", ["04_flower", "05_flower_malicious"])
def test_an_example_is_installed_from_the_source_tree(folder):
    readme = (ROOT / "examples" / folder / "README.md").read_text()
    assert re.search(r"pip install -e '\.\[flower", readme)
    assert "pip install 'f2ed" not in readme


def test_the_files_install_from_the_source_tree():
    assert "/src[flower]" in (ROOT / "deploy" / "containers" / "Containerfile").read_text()
    assert "pip install 'f2ed" not in (ROOT / "deploy" / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_command_of_the_page_is_understood(page, options):
    seen = 0
    for words in commands(page.read_text()):
        if words[0] in (*FLOWER, "f2ed"):
            known(words, options)
            seen += 1
    assert seen or page.name == "README.md"
