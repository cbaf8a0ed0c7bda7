"""The command line at first sight: its help, and what it answers where an extra is not installed."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from f2ed.cli.app import GROUPS, app

COMMANDS = [name for names in GROUPS.values() for name in names]
NEEDS_FLOWER = {"up", "node", "executor", "operator"}
RECORDS = str(Path(__file__).parents[2] / "results" / "dba_remedies.jsonl.xz")
CLI_ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("flwr", "torch", "sklearn", "jinja2", "plotly", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from f2ed.cli import main
sys.argv[0] = "f2ed"
main()
"""


def cli_alone(*words, cwd):
    return subprocess.run(
        [sys.executable, "-c", CLI_ALONE, *words], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def shown():
    done = subprocess.run(
        [sys.executable, "-m", "f2ed.cli", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "80", "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )
    return done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_one_line_in_the_help(shown, name):
    (line,) = re.findall(rf"^│ {name} +(\S.*?) *│$", shown, re.MULTILINE)
    assert line.endswith("."), "the line is cut off or wrapped at 80 columns"


def test_commands_are_grouped(shown):
    positions = [shown.index(f"─ {title} ─") for title in GROUPS]
    assert positions == sorted(positions)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NEEDS_FLOWER | {"roster", "records", "app"}])
def test_the_help_of_a_command_keeps_its_example(name, capsys):
    with pytest.raises(SystemExit):
        app([name, "--help"])
    assert f"Example: f2ed {name}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["run", "demo"], "train"),
        (["search"], "train"),
        (["reproduce", "fig2"], "train"),
        (["audit"], "train"),
        (["data"], "train"),
        (["list", "datasets"], "train"),
        (["up", "app"], "flower"),
        (["report", RECORDS], "report"),
        (["figures", RECORDS], "report"),
        (["watch", RECORDS], "report"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else None,
)
def test_with_cli_alone_a_missing_extra_is_named_without_a_traceback(words, extra, tmp_path):
    ended = cli_alone(*words, cwd=tmp_path)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert f"pip install 'f2ed[{extra}]'" in ended.stderr


def test_with_cli_alone_the_help_and_the_planner_work(tmp_path):
    assert cli_alone("--help", cwd=tmp_path).returncode == 0
    planned = cli_alone("plan", "--clients", "1000", "--malicious", "2", "--min-crowd", "8", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr


INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name in {"msgspec", "numpy", "cryptography", "cyclopts"}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv = ["f2ed", "plan", "--clients", "10"]
from f2ed.cli import main
main()
"""


def test_an_interrupt_while_f2ed_itself_is_imported_ends_with_a_sentence():
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "f2ed: interrupted\n")


def test_an_interrupt_while_commands_load_ends_without_a_traceback(monkeypatch):
    from f2ed.cli import main

    class Interrupted(ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "f2ed.cli.app", Interrupted("f2ed.cli.app"))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
