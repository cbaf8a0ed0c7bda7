"""Records survive new versions, and a crash in the middle of a line."""

import gzip

import msgspec
import pytest

from f2ed.core.errors import ConfigError
from f2ed.records import Plugin, RoundRecord, RunHeader, Seconds, line, read, read_folder


def header(**changes):
    settings = {
        "name": "run",
        "digest": "d",
        "settings": {"clients": 3},
        "seed": 0,
        "rounds": 2,
        "versions": {"f2ed": "1"},
        "device": "cpu",
        "dimension": 5,
        "clients": 3,
        "malicious": (1,),
        "estimator": Plugin(kind="mean", title="Mean"),
        "attack": Plugin(kind="krum-attack", title="Krum attack"),
        "samples": (2, 2, 2),
        "labels": ((1, 1), (2, 0), (0, 2)),
        "shards": ((0, 1, 2),),
        "mode": "clear",
        "crowd": 1,
        "guarantee": {"region": "nothing"},
    }
    return RunHeader(**(settings | changes))


def record(number, **changes):
    return RoundRecord(
        **({"round": number, "accuracy": 0.5, "loss": 1.25, "weights": (0.25, 0.75), "contaminated": (1,)} | changes)
    )


def written(path, *records):
    path.write_bytes(b"".join(map(line, records)))
    return path


def test_what_is_written_is_read_again(tmp_path):
    rounds = (record(0, excluded={3: "closed"}), record(1, seconds=Seconds(train=1.5, sum=0.5)))
    log = read(written(tmp_path / "a.jsonl", header(), *rounds))
    assert log == (header(), rounds, None)
    assert log.finished
    assert log.rounds[1].seconds.total == 2.0


def test_a_run_with_rounds_to_go_is_not_finished(tmp_path):
    assert not read(written(tmp_path / "a.jsonl", header(), record(0))).finished


def test_a_half_written_last_line_is_reported_and_not_used(tmp_path):
    path = written(tmp_path / "a.jsonl", header(), record(0))
    whole = path.read_bytes()
    path.write_bytes(whole + line(record(1))[:17])
    log = read(path)
    assert [each.round for each in log.rounds] == [0]
    assert log.torn == line(record(1))[:17].decode()


def test_fields_and_lines_of_a_newer_version_are_passed_over(tmp_path):
    path = written(tmp_path / "a.jsonl", header())
    newer = msgspec.to_builtins(record(0)) | {"mood": "good"}
    path.write_bytes(path.read_bytes() + msgspec.json.encode(newer) + b'\n{"record":"picture","of":"it"}\n')
    assert read(path).rounds == (record(0),)


def test_fields_that_an_older_version_did_not_have_get_their_defaults(tmp_path):
    path = written(tmp_path / "a.jsonl", header())
    path.write_bytes(path.read_bytes() + b'{"record":"round","round":0,"accuracy":0.5,"loss":null}\n')
    assert read(path).rounds == (RoundRecord(round=0, accuracy=0.5, loss=None),)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b'{"record":"round","round":0,"accuracy":0.5,"loss":null}\n', b"[]\n"],
)
def test_a_file_that_is_no_run_is_refused(tmp_path, content):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"a\.jsonl"):
        read(path)


def test_a_broken_line_in_the_middle_is_refused_with_its_number(tmp_path):
    path = written(tmp_path / "a.jsonl", header())
    path.write_bytes(path.read_bytes() + b'{"record":"round","round":\n' + line(record(1)))
    with pytest.raises(ConfigError, match="line 2"):
        read(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read(tmp_path / "gone.jsonl")


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    for name in "ba":
        written(tmp_path / f"{name}.jsonl", header(name=name))
    assert [log.header.name for log in read_folder(tmp_path)] == ["a", "b"]


def test_the_weight_on_contaminated_shards_is_added_up():
    assert record(0).contaminated_weight == 0.75
    assert record(0, weights=None).contaminated_weight is None


def test_a_compressed_file_reads_as_the_file_itself(tmp_path):
    plain = written(tmp_path / "a.jsonl", header(), record(0), record(1))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "c.jsonl.bak").write_bytes(b"no records")
    first, second = read_folder(tmp_path)
    assert first == second


@pytest.mark.parametrize(
    "damage", [lambda found: found[:-9], lambda found: b"no" + found, lambda found: found[:40] + found[41:]]
)
def test_a_damaged_compressed_file_is_refused(tmp_path, damage):
    plain = written(tmp_path / "a.jsonl", header(), record(0))
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(damage(gzip.compress(plain.read_bytes())))
    with pytest.raises(ConfigError, match=r"b\.jsonl\.gz cannot be read: not a compressed file, or only the beginning"):
        read(packed)
