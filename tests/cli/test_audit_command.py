import json

import pytest

from f2ed.cli.app import app
from f2ed.core.errors import ConfigError
from f2ed.records import read
from f2ed.report import write_page

RUN = """
data = "digits"
model = { kind = "mlp", hidden = [96] }
clients = 24
malicious = 1
shards = 6
rounds = 2
seed = 5
estimator = "mean"
schedule = { kind = "every-k-rounds", k = 7 }
training = { batch_size = 2, lr = 0.1 }
"""


def audit(line: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        app(f"audit {line}")
    assert not exit_.value.code


def test_it_takes_over_what_a_run_states_and_writes_findings_page_and_pictures(tmp_path, capsys):
    run = tmp_path / "run.toml"
    run.write_text(RUN)
    audit(f"{run} --quick --out {tmp_path / 'out'} --trials 1 --sizes 1,3 --rounds 5 --json")
    found = json.loads(capsys.readouterr().out)
    assert found["data"] == "digits"
    assert found["settings"]["hidden"] == 96
    assert found["settings"]["seed"] == 5
    assert found["settings"]["batch_size"] == 2
    assert (found["settings"]["clients"], found["settings"]["shard"]) == (24, 4)
    assert {one["shard"] for one in found["findings"] if one["attack"] == "inversion"} == {1, 3}
    assert any("k = 7" in one["setting"] for one in found["findings"])
    assert (tmp_path / "out" / "audit.md").read_text().startswith("# What the server learns: digits")
    for picture in found["pictures"]:
        assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")


def test_the_page_states_that_noise_is_left_out(tmp_path):
    run = tmp_path / "run.toml"
    run.write_text(RUN + "clip_norm = 0.5\ndp = 2.0\n")
    audit(f"{run} --quick --out {tmp_path / 'out'} --trials 1 --sizes 1 --rounds 5")
    assert "noise (noise_multiplier 2) is left out" in (tmp_path / "out" / "audit.md").read_text()


def test_findings_can_be_added_to_the_records_of_a_run_and_leave_it_readable(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    with pytest.raises(SystemExit):
        app(f"run {tmp_path / 'run.toml'} --out {tmp_path / 'runs'}")
    (records,) = (tmp_path / "runs" / "run").glob("*.jsonl")
    before = read(records)
    audit(f"{records} --quick --out {tmp_path / 'out'} --trials 1 --sizes 1 --rounds 5 --note")
    after = read(records)
    assert after == before
    added = [json.loads(line) for line in records.read_text().splitlines()][1 + len(before.rounds) :]
    assert {line["record"] for line in added} == {"audit", "picture"}
    assert {"inversion", "disaggregation"} <= {line.get("attack") for line in added}
    assert "the sums of all rounds determine no single client" in (tmp_path / "out" / "audit.md").read_text()
    page = write_page([records], tmp_path / "p.html")
    assert page.problems == ()
    assert "data:image/png;base64,iVBOR" in page.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("records.csv", "neither an experiment file"),
        ("--note", "needs the records of a run"),
        ("--sizes 1,two", "whole numbers separated by commas"),
        ("--trials 0", "--trials: expected `int` >= 1"),
    ],
)
def test_what_cannot_be_audited_is_refused(line, why, tmp_path):
    with pytest.raises(ConfigError, match=why):
        app(f"audit {line} --out {tmp_path}")


def test_a_run_with_helpers_is_audited_for_each_party(tmp_path, capsys):
    run = tmp_path / "run.toml"
    settings = RUN.replace("shards = 6", 'protocol = { kind = "helpers", sketch = 256, tests = 4 }\nclip_norm = 1.0')
    run.write_text(settings.replace("[96]", "[24]"))
    audit(f"{run} --quick --out {tmp_path / 'out'} --rounds 5 --seed 3 --json")
    found = json.loads(capsys.readouterr().out)
    assert (found["protocol"], found["data"]) == ("helpers", "digits")
    chosen = found["settings"]
    assert (chosen["clients"], chosen["batch_size"], chosen["hidden"], chosen["seed"]) == (24, 2, 24, 3)
    assert (chosen["helpers"]["sketch"], chosen["colluders"], chosen["rounds"]) == (256, [3, 12], [1, 5])
    assert {one["target"] for one in found["findings"]} == {
        "images",
        "labels",
        "membership",
        "malicious model",
        "rounds",
    }
    assert (tmp_path / "out" / "audit.md").read_text().startswith("# What server, mixer and judge learn: digits")
    for picture in found["pictures"]:
        assert (tmp_path / "out" / picture["file"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", ["--sizes 1,2", "--trials 2", "--iterations 3"])
def test_options_of_shards_are_refused_with_helpers(option):
    with pytest.raises(ConfigError, match=f"{option.split()[0]}: only for shards"):
        app(f"audit --protocol helpers {option}")
