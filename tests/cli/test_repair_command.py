"""`f2ed repair`: from a record and its saved model to a repaired one."""

import json

import pytest

SMALL = """
title = "Small"
about = "A run of a second."
data = { kind = "synthetic", train = 240, test = 60, side = 4 }
model = { kind = "mlp", hidden = [8] }
clients = 12
malicious = 2
shards = 4
rounds = 2
secure = false
estimator = "mean"
attack = "dba"
"""


@pytest.fixture
def record(f2ed, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf-8")
    status, *_ = f2ed("run", tmp_path / "small.toml", "--device", "cpu", "--save-model")
    assert status in (0, None)
    (path,) = (tmp_path / "runs" / "small").glob("*.jsonl")
    return path


def test_a_saved_model_is_repaired_and_compared(f2ed, record, tmp_path):
    out = tmp_path / "repaired.safetensors"
    status, text, _ = f2ed("repair", record, "--samples", 40, "--epochs", 2, "-o", out, "--json")
    assert status in (0, None)
    found = json.loads(text)
    assert set(found) == {"before", "after"}
    assert 0 <= found["after"]["success"] <= 1
    _, text, _ = f2ed("repair", record, "--model", out, "--samples", 40, "--epochs", 1)
    assert f"before: accuracy {100 * found['after']['accuracy']:.1f} %, backdoor" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--samples", 0), "--samples 0: use at least 1"), (("--model", "none.safetensors"), "there is no model none")],
)
def test_a_repair_that_cannot_be_is_refused_in_one_sentence(f2ed, record, arguments, message):
    status, *_ = f2ed("repair", record, *arguments)
    assert message in status
