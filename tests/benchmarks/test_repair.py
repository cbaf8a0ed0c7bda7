"""The benchmark of clean-ups calls `f2ed repair` for every saved model of a folder."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from f2ed.records import line
from f2ed.simulation import simulate

HERE = Path(__file__).parents[2] / "benchmarks"
SETTINGS = {
    "data": {"kind": "synthetic", "train": 240, "test": 60, "side": 6},
    "model": {"kind": "mlp", "hidden": [8]},
    "clients": 12,
    "malicious": 2,
    "shards": 4,
    "rounds": 1,
    "secure": False,
    "estimator": "mean",
}


@pytest.fixture
def runs(tmp_path):
    """The records and models of an attacked run and of one without an attack."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, attack in (("attacked", "model-replacement"), ("honest", None)):
        run = simulate(SETTINGS | {"attack": attack})
        records = list(run)
        run.save_model(folder / f"{name}.safetensors")
        arm = {"partition": "i.i.d.", "estimator": "mean", "seed": "0"}
        header = msgspec.structs.replace(run.header, arm=arm)
        (folder / f"{name}.jsonl").write_bytes(line(header) + b"".join(map(line, records)))
    return folder


def test_every_attacked_model_is_repaired_by_every_method(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(HERE))
    import repair as benchmark

    monkeypatch.setattr(benchmark, "SAMPLES", (20, 40))
    monkeypatch.setattr(sys, "argv", ["repair.py", str(runs), str(tmp_path / "repair.json")])
    benchmark.main()
    found = json.loads((tmp_path / "repair.json").read_text())
    assert [(each["method"], each["samples"]) for each in found] == [
        (method, samples) for method in ("fine-tune", "fine-prune", "unlearn") for samples in (20, 40)
    ]
    assert {each["before"]["success"] for each in found} == {found[0]["before"]["success"]}
    assert "before" in capsys.readouterr().out
