"""The committed records: every archive is readable, of the current format, and the table of all runs is theirs."""

import lzma
from pathlib import Path

import pytest

from f2ed.records import FORMAT, read_all, settings_digest, unpacked
from f2ed.records.archive import packed, summary_table
from f2ed.records.reader import experiment_name

RESULTS = Path(__file__).parents[2] / "results"
ARCHIVES = sorted(RESULTS.rglob("*.jsonl.xz"))


def test_the_table_holds_what_the_archives_hold():
    found = {experiment_name(path): read_all(path) for path in ARCHIVES}
    assert len(found) >= 32  # a missing archive would leave the table without its runs
    assert (RESULTS / "summary.csv").read_text(encoding="utf-8") == summary_table(found)


@pytest.mark.parametrize("name", ["fig1_iid-quick", "privacy_dial", "dba_remedies"])
def test_archives_are_of_the_current_format_and_packed_the_same_way_each_time(name):
    path = RESULTS / f"{name}.jsonl.xz"
    logs = read_all(path)
    assert {log.header.format for log in logs} == {FORMAT}
    assert all(log.header.digest == settings_digest(log.header.settings) for log in logs)
    assert packed(logs[::-1]) == packed(logs)
    assert lzma.decompress(packed(logs)) == unpacked(path)
