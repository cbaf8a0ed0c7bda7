"""Odd invocations end with one sentence and a non-zero exit status, never with a traceback."""

import sys
from pathlib import Path

import pytest

from f2ed.cli import main

RECORDS = str(Path(__file__).parents[2] / "results" / "dba_remedies.jsonl.xz")
ODD = [
    ("run nothing.toml", "is neither a file nor a shipped experiment"),
    ("run file", "data is missing"),
    ("run demo --jobs 0", "--jobs 0: use at least 1"),
    ("run demo --out file", "a file is in the way"),
    ("run demo --only zzz", "no run of"),
    ("run demo --part zzz", "unknown part zzz"),
    ("run demo --device tpu", "there is no device 'tpu'"),
    ("run demo --address auto", "add --engine ray"),
    ("run demo --cores-per-run 2", "add --engine ray"),
    ("run demo --log-to csv:x", "write tensorboard:FOLDER"),
    ("run demo --watch --port 99999", "invalid port 99999"),
    ("plan --clients 10 --malicious 20 --shards 2", "20 malicious of 10 clients"),
    ("plan --clients 10 --malicious 1 --shards 2 --schedule often", "use fixed, every-round,"),
    ("plan --clients 10 --malicious 1", "give --min-crowd, or --shards"),
    ("report", "no runs given"),
    ("report nowhere", "nowhere does not exist"),
    (f"report {RECORDS} -o .", "cannot be used: Is a directory"),
    (f"figures {RECORDS} -o file", "file cannot be used: File exists"),
    (f"export {RECORDS}", "no output format given"),
    (f"export {RECORDS} --to csv -o .", "cannot be used: Is a directory"),
    (f"export {RECORDS} --tensorboard file", "cannot be used: Not a directory"),
    ("records migrate empty", "no records given"),
    ("repair empty", "empty holds 0 runs"),
    ("audit --trials 0", "--trials: expected `int` >= 1"),
    ("kit check", "is not an unpacked kit"),
]


@pytest.mark.parametrize(("words", "sentence"), ODD, ids=[words for words, _ in ODD])
def test_odd_invocations_end_with_a_sentence(words, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("empty").mkdir()
    monkeypatch.setattr(sys, "argv", ["f2ed", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, str)
    assert ended.value.code.startswith("f2ed: ")
    assert sentence in ended.value.code
    assert "\n" not in ended.value.code
