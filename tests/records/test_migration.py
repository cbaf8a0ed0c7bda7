"""Records of format 1 are read as records of format 2, by today's names."""

import gzip
import lzma
import subprocess
import sys

import msgspec
import pytest

from f2ed.protocol.aggregation import Protocol
from f2ed.records import FORMAT, read, read_all, settings_digest
from f2ed.records.archive import COLUMNS, distinct, packed, summary_table
from f2ed.records.digest import ADDED
from f2ed.records.migration import migrate_header, migrate_settings
from f2ed.records.reader import experiment_name, locate
from f2ed.simulation import Experiment, experiment
from f2ed.simulation.header import digest

SETTINGS = {
    "data": {"kind": "mnist", "normalise": True},
    "partition": {"kind": "labels-per-client", "labels": 3},
    "model": {"kind": "mlp", "hidden": [32]},
    "training": {"lr": 0.1, "batch": 20, "local_epochs": 1, "optimiser": "sgd", "momentum": 0.0, "weight_decay": 0.0},
    "client_momentum": None,
    "clients": 24,
    "malicious": 2,
    "attack": {
        "kind": "tma",
        "b": None,
        "space": None,
        "variant": "authors",
        "knowledge": "full",
        "shard_aware": False,
    },
    "estimator": {"kind": "nnm", "epsilon": 0.25, "inner": {"kind": "trimmed-mean", "epsilon": 0.25}},
    "shards": 8,
    "schedule": {"type": "fixed"},
    "rounds": 2,
    "seed": 0,
    "secure": True,
    "protocol": {"mode": "auto", "colluders": 0, "threshold": None, "survivors": None, "consistent": True},
    "clip": 1.0,
    "l2": 0.5,
    "bits": 20,
    "dropout": 0.1,
    "privacy": {"multiplier": 2.0, "delta": 1e-5},
}
HEADER = {
    "record": "run",
    "name": "TMA (authors), labels-per-client, privacy 2.0",
    "digest": "of another version",
    "settings": SETTINGS,
    "seed": 0,
    "rounds": 2,
    "versions": {"f2ed": "0.1.0.dev0"},
    "device": "cpu",
    "dimension": 5,
    "clients": 24,
    "malicious": [1, 5],
    "attacked": True,
    "samples": [2] * 24,
    "labels": [[1, 1]] * 24,
    "shards": [[3 * shard, 3 * shard + 1, 3 * shard + 2] for shard in range(8)],
    "mode": "all-or-nothing",
    "hidden_among": 3,
    "guarantee": {"malicious": 2, "shards": 8, "region": "experience", "hidden_among": 3, "worst_share": 0.25},
    "verdict": "2 malicious clients can spoil 25% of 8 rows",
    "forecast": {
        "exposed": 0,
        "first": None,
        "last": None,
        "crowd": 3,
        "cosine": 0.57,
        "leaks": False,
        "text": "Over 2 rounds the sums determine nobody.",
    },
    "notes": [
        "every shard mean carries noise of 0.33 in each coordinate, 4.5 in all where an update has at most 0.5; so"
    ],
    "arm": {"attack": "TMA (authors)", "partition": "labels-per-client", "privacy": "2.0"},
    "started": "2026-01-01T12:00:00+00:00",
}
ROUND = {
    "record": "round",
    "round": 0,
    "accuracy": 0.5,
    "loss": 1.0,
    "weights": [0.125] * 8,
    "excluded": {"3": "1 of 3 members sent nothing: dropped out"},
    "contaminated": [0, 1],
    "stopped": "no step: nothing was opened",
    "hidden_among": 3,
    "epsilon": [1.5, 2.5],
    "meter": {"rank": 8, "exposed": 0, "first": None, "crowd": 3},
    "seconds": {"train": 1.0},
}


def encoded(*records):
    return b"".join(msgspec.json.encode(each) + b"\n" for each in records)


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.jsonl"
    path.write_bytes(encoded(HEADER, ROUND))
    return path


def test_settings_get_todays_names_down_to_the_inner_rule():
    found = migrate_settings(SETTINGS)
    assert found["estimator"] == {
        "kind": "nnm",
        "contamination": 0.25,
        "inner": {"kind": "trimmed-mean", "contamination": 0.25},
    }
    assert (found["attack"]["kind"], found["attack"]["variant"]) == ("trimmed-mean-attack", "released")
    assert found["partition"] == {"kind": "pathological", "classes_per_client": 3}
    assert (found["clip_value"], found["clip_norm"], found["client_dropout"]) == (1.0, 0.5, 0.1)
    assert found["dp"] == {"noise_multiplier": 2.0, "delta": 1e-5}
    assert (found["training"]["batch_size"], found["training"]["optimizer"]) == (20, "sgd")
    assert found["attack_from"] == 0


def test_a_setting_that_came_later_renames_no_run_and_another_value_of_it_does():
    assert ADDED["protocol"]["agreement"] == Protocol().agreement
    before = {"protocol": {"mode": "auto"}}
    same, other = ({"protocol": {"mode": "auto", "agreement": each}} for each in ("x25519+mlkem768", "x25519"))
    assert settings_digest(before) == settings_digest(same) != settings_digest(other)


def test_the_digest_is_that_of_the_same_experiment_today():
    meant = msgspec.convert(migrate_settings(SETTINGS), Experiment)
    assert migrate_header(HEADER)["digest"] == digest(meant) == digest(experiment(msgspec.to_builtins(meant)))


def test_an_optional_setting_that_is_none_does_not_change_the_digest():
    assert settings_digest({"a": {"b": 1, "c": None}, "d": None}) == settings_digest({"a": {"b": 1}})
    assert settings_digest({"a": 1}) != settings_digest({"a": 2})


def test_a_header_of_format_1_is_read_as_one_of_format_2(old):
    header = read(old).header
    assert (header.format, header.source, header.crowd, header.tolerated) == (FORMAT, "simulation", 3, 2)
    assert (header.estimator.full_kind, header.estimator.full_title) == ("nnm + trimmed-mean", "Nnm + Trimmed mean")
    assert header.attack.kind == "trimmed-mean-attack"
    assert header.attacked
    assert header.guarantee["crowd"] == 3
    assert header.name == "TMA (released), pathological, dp 2.0"
    assert header.arm == {"attack": "TMA (released)", "partition": "pathological", "dp": "2.0"}
    assert (header.noise.noise_multiplier, header.noise.shard, header.noise.shard_norm) == (2.0, 0.33, 4.5)
    assert header.forecast.crowd == 3


def test_a_round_of_format_1_is_read_as_one_of_format_2(old):
    (record,) = read(old).rounds
    assert (record.crowd, record.leak.rank, record.dp_epsilon) == (3, 8, {0: 1.5, 1: 2.5})
    assert (record.skipped, record.stopped) == ("nothing was opened", "")
    assert record.excluded == {3: "1 of 3 members sent nothing: dropped out"}
    assert record.max_dp_epsilon == 2.5


def test_an_archive_holds_runs_one_after_another_and_a_folder_s_name_stands_for_it(old, tmp_path):
    logs = [read(old), read(old)._replace(rounds=())]
    (tmp_path / "fig.jsonl.xz").write_bytes(packed(logs))
    assert locate(tmp_path / "fig") == tmp_path / "fig.jsonl.xz"
    assert experiment_name(tmp_path / "fig.jsonl.xz") == "fig"
    assert [len(log.rounds) for log in read_all(tmp_path / "fig")] == [1, 0]


def test_formats_may_follow_each_other_in_one_file(old):
    old.write_bytes(encoded(HEADER, ROUND) + encoded(read(old).header) + encoded(HEADER, ROUND))
    assert [len(log.rounds) for log in read_all(old)] == [1, 0, 1]
    assert [log.rounds[0].crowd for log in read_all(old) if log.rounds] == [3, 3]


def test_a_row_of_the_summary_has_the_settings_and_the_last_numbers(old):
    head, row = summary_table({"fig": [read(old)]}).splitlines()
    assert head == ",".join(COLUMNS)
    assert row.startswith('fig,"TMA (released), pathological, dp 2.0",')
    assert "trimmed-mean-attack,nnm + trimmed-mean,8,fixed,24,2,0,1,0.5,,0.25,,all-or-nothing,3,0,2.5,1,cpu" in row


def f2ed(*arguments):
    command = [sys.executable, "-m", "f2ed.cli", "records", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


ANOTHER = HEADER | {"settings": SETTINGS | {"seed": 1}, "seed": 1}


def test_a_run_that_the_archive_holds_already_is_not_added_again(old, tmp_path):
    archive, more = tmp_path / "fig.jsonl.xz", tmp_path / "more.jsonl"
    assert f2ed("migrate", old, "-o", archive).returncode == 0
    before = archive.read_bytes()
    found = f2ed("migrate", archive, old, "-o", archive)
    assert "1 runs are in" in found.stdout
    assert "1 were given more than once" in found.stdout
    assert archive.read_bytes() == before
    more.write_bytes(encoded(ANOTHER, ROUND))
    for _ in range(2):
        assert "2 runs are in" in f2ed("migrate", archive, more, "-o", archive).stdout
    assert sorted(log.header.settings["seed"] for log in read_all(archive)) == [0, 1]


def test_of_runs_with_the_same_settings_the_longest_stays_and_of_equals_the_last(old):
    log = read(old)
    (first,) = log.rounds
    longer = log._replace(rounds=(first, msgspec.structs.replace(first, round=1)))
    again = log._replace(header=msgspec.structs.replace(log.header, device="another"))
    assert distinct([log, longer, again]) == distinct([longer, log]) == [longer]
    assert distinct([log, again]) == [again]


def test_deployments_that_started_at_different_times_and_runs_of_other_sources_are_different(old):
    log = read(old)
    headers = [
        msgspec.structs.replace(log.header, **changed)
        for changed in (
            {"source": "deployment", "started": "2026-01-01T00:00:00Z"},
            {"source": "deployment", "started": "2026-01-02T00:00:00Z"},
            {"sources": {"mine:Rule": "a"}},
            {"sources": {"mine:Rule": "b"}},
        )
    ]
    assert len(distinct([log._replace(header=header) for header in headers * 2])) == 4


def test_the_summary_is_the_same_in_whatever_order_runs_are_given(old):
    log = read(old)
    runs = [
        log._replace(header=msgspec.structs.replace(log.header, name=name, digest=digest))
        for name, digest in [("b", "1"), ("a", "3"), ("a", "2")]
    ]
    table = summary_table({"x": runs, "fig": runs[:1]})
    assert table == summary_table({"fig": [*runs[:1], *runs[:1]], "x": runs[::-1]})
    assert [row.split(",")[:3] for row in table.splitlines()[1:]] == [
        ["fig", "b", "1"], ["x", "a", "2"], ["x", "a", "3"], ["x", "b", "1"],
    ]  # fmt: skip


def test_the_command_migrates_in_place_into_an_archive_and_twice_alike(old, tmp_path):
    (tmp_path / "more.jsonl.gz").write_bytes(gzip.compress(encoded(ANOTHER, ROUND)))
    archive = tmp_path / "both.jsonl.xz"
    assert f2ed("migrate", old, tmp_path / "more.jsonl.gz", "-o", archive).returncode == 0
    assert [log.header.estimator.full_title for log in read_all(archive)] == ["NNM + Trimmed mean"] * 2
    assert f2ed("migrate", tmp_path).returncode == 0
    once = old.read_bytes()
    assert b'"format":2' in once
    assert read(old).header.attack.paper
    before = lzma.decompress(archive.read_bytes())
    assert f2ed("migrate", tmp_path).returncode == 0
    assert old.read_bytes() == once
    assert lzma.decompress(archive.read_bytes()) == before


@pytest.mark.usefixtures("old")
def test_the_command_writes_the_summary(tmp_path):
    found = f2ed("summary", tmp_path, "-o", tmp_path / "summary.csv")
    assert "1 runs of 1 experiments" in found.stdout
    assert len((tmp_path / "summary.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["migrate"], "no records given"),
        (["migrate", "nowhere"], "nowhere does not exist"),
        (["migrate", ".", "-o", "out.zip"], "not the name of an archive"),
        (["summary"], "no records given"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(arguments, complaint):
    found = f2ed(*arguments)
    assert found.returncode != 0
    assert complaint in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr
