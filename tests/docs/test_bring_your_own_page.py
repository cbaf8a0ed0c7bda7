"""The code of the page runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from f2ed.experiments.file import parse
from f2ed.experiments.grid import expand

PAGE = (Path(__file__).parents[2] / "docs/bring_your_own.md").read_text("utf-8")


def block(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[0]


def test_every_other_piece_of_a_file_can_be_added_to_a_file():
    whole = 'data = "digits"\nclients = 1000\nshards = 4\nrounds = 1\n'
    pieces = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1:]
    assert pieces
    for piece in pieces:
        assert expand(parse(whole + piece, "mine.toml"))


def test_the_python_runs(tmp_path):
    (tmp_path / "mine.py").write_text(block("python"))
    done = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    rounds = [line.split() for line in done.stdout.splitlines()]
    assert [int(number) for number, _ in rounds] == [0, 1, 2]


def test_the_file_runs_with_the_code_beside_it(tmp_path):
    code, _, _ = block("python").partition("rng = np.random")
    (tmp_path / "mine.py").write_text(code)
    (tmp_path / "mine.toml").write_text(block("toml"))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 8, 1)).astype(np.float32)
    y = (x.sum(axis=(1, 2)) > 0).astype(int)
    owners = np.arange(500) % 20
    np.savez(tmp_path / "mine.npz", x_train=x[:500], y_train=y[:500], x_test=x[500:], y_test=y[500:], client=owners)
    command = [sys.executable, "-m", "f2ed.cli", "run", "mine.toml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Middle, done: round 3/3" in done.stdout + done.stderr
    assert len(list((tmp_path / "out/mine").glob("*.jsonl"))) == 2
