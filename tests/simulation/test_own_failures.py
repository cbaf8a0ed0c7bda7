"""Code of your own that fails in the middle of a run is named in one sentence, with its line."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

import f2ed
from f2ed.attacks import Attack
from f2ed.core.errors import PluginError
from f2ed.estimators import Estimator, Mean

SMALL = {"data": {"kind": "synthetic", "train": 240, "test": 60}, "clients": 12, "shards": 4, "rounds": 1}


class Rule(Estimator, frozen=True, tag="rule"):
    def estimate(self, rows):
        return rows.n / 0


class Push(Attack, frozen=True, tag="push"):
    def craft(self, scene):
        return {"row": scene.own}["rows"]


class Moody(nn.Module):
    """Takes two samples, and no batch of training."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8 * 8, 10)

    def forward(self, x):
        if len(x) > 2:
            raise RuntimeError("not today\nnor tomorrow")
        return self.layer(x.flatten(1))


def moody_loss(outputs, targets):
    if len(targets) > 2:
        raise ValueError
    return nn.functional.cross_entropy(outputs, targets)


def line_of(text):
    with Path(__file__).open(encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


@pytest.mark.parametrize(
    ("changed", "begins", "line", "ends"),
    [
        ({"estimator": Rule()}, "estimator: Rule failed", "rows.n / 0", "ZeroDivisionError: division by zero"),
        ({"attack": Push(), "malicious": 1}, "attack: Push failed", '["rows"]', "KeyError: 'rows'"),
        ({"model": Moody}, f"model: {__name__}:Moody failed", "not today", "RuntimeError: not today"),
        ({"loss": moody_loss}, f"loss: {__name__}:moody_loss failed", "raise ValueError", "ValueError: ValueError()"),
    ],
)
def test_a_failure_names_the_code_its_line_and_the_error(changed, begins, line, ends):
    with pytest.raises(PluginError) as failure:
        list(f2ed.simulate(SMALL | changed))
    assert str(failure.value) == f"{begins} in test_own_failures.py, line {line_of(line)}: {ends}"
    assert failure.value.__cause__ is not None


class Ending(Estimator, frozen=True, tag="ending"):
    def estimate(self, rows):  # noqa: ARG002  the signature of every rule
        raise KeyboardInterrupt


def test_an_interruption_is_no_failure():
    with pytest.raises(KeyboardInterrupt):
        list(f2ed.simulate(SMALL | {"estimator": Ending()}))


def test_a_failure_of_shipped_code_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(Mean, "estimate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(f2ed.simulate(SMALL | {"estimator": "mean"}))


def test_the_command_line_prints_the_sentence_and_no_traceback(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from f2ed.estimators import Estimator\n"
        "class Rule(Estimator, frozen=True, tag='rule'):\n"
        "    def estimate(self, rows):\n"
        "        raise LookupError('lost')\n"
    )
    (tmp_path / "mine.toml").write_text(
        'data = { kind = "synthetic", train = 240, test = 60 }\nclients = 12\nshards = 4\nrounds = 1\n'
        'estimator = { kind = "imported", factory = "mine:Rule" }\n'
    )
    command = [sys.executable, "-m", "f2ed.cli", "run", "mine.toml", "--out", "runs"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert "estimator: Rule failed in mine.py, line 4: LookupError: lost" in " ".join(found.stderr.split())
