"""The files to copy, and the commands of the page, against the commands that are installed."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from f2ed.cli.app import app

yaml = pytest.importorskip("yaml")  # Flower brings it.

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMPOSE = sorted((ROOT / "deploy" / "containers").glob("*.yaml"))
PAGES = [ROOT / "docs" / "deploy_flower.md", ROOT / "deploy" / "README.md"]
APPS = [
    *sorted((ROOT / "examples").glob("*/pyproject.toml")),
    ROOT / "benchmarks" / "flower_app" / "pyproject.toml",
    ROOT / "tests" / "real_deployment" / "app" / "pyproject.toml",
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
    """Say whether all options of a command of Flower exist."""
    name = Path(words[0]).name
    assert name in FLOWER
    given = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    assert given <= options[name], f"{name} has no {sorted(given - options[name])}"
    return name, words


def is_protected(name, words):
    """Say whether a command lets nothing go without TLS and authentication."""
    assert "--insecure" not in words
    text = " ".join(words)
    if name == "flower-superlink":
        return "--enable-supernode-auth" in text and "--ssl-keyfile" in text
    settings = ("f2ed-key=", "f2ed-roster=", "f2ed-authority=")
    return "--auth-supernode-private-key" in text and all(each in text for each in settings)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_what_flower_has(unit, options):
    assert is_protected(*known(started(unit), options))
    files = re.findall(r"^EnvironmentFile=/etc/f2ed/(.*)$", unit.read_text(), re.MULTILINE)
    given = "".join((unit.parent / name).read_text() for name in files)
    for variable in re.findall(r"\$\{(\w+)\}", unit.read_text()):
        assert f"{variable}=" in given


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to check its units")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    for unit in UNITS:
        text = unit.read_text().replace("/opt/f2ed/bin", str(Path(sys.executable).parent))
        (tmp_path / unit.name).write_text(text)
    names = [str(tmp_path / unit.name) for unit in UNITS]
    command = [shutil.which("systemd-analyze"), "verify", "--man=no", *names]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert not [line for line in checked.stderr.splitlines() if "f2ed-super" in line]


@pytest.mark.parametrize("compose", COMPOSE, ids=lambda compose: compose.stem)
def test_a_compose_file_starts_what_flower_has(compose, options):
    (service,) = yaml.safe_load(compose.read_text())["services"].values()
    name, words = known(service["command"], options)
    assert is_protected(name, words)
    assert service["cap_drop"] == ["ALL"]
    # Only the SuperLink listens for others.
    assert bool(service.get("ports")) == (name == "flower-superlink")


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
        if words[0] in FLOWER:
            known(words, options)
            seen += 1
        elif words[0] == "f2ed":
            app.parse_args([word for word in words[1:] if word != "…"], exit_on_error=False, print_error=False)
            seen += 1
    assert seen or page.name == "README.md"
