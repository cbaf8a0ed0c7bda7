"""The table of the helpers page is what the records say."""

from collections import defaultdict
from pathlib import Path

from f2ed.records import read_all

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "helpers.md").read_text(encoding="utf-8")
ATTACKS = ("none", "TMA", "Min-Max", "Oracle", "MRA (as trained)")


def cells():
    """Return accuracy or success in percent, and the smallest crowd, by setting and attack, over the seeds."""
    found = defaultdict(list)
    for log in read_all(ROOT / "results" / "helpers.jsonl.xz"):
        arm, last = log.header.arm, log.rounds[-1]
        measured = last.accuracy if last.success is None else last.success
        crowd = min(record.crowd for record in log.rounds)
        found[arm.get("protocol", "25 shards"), arm["attack"]].append((log.header.seed, 100 * measured, crowd))
    return {key: sorted(several) for key, several in found.items()}


def row(setting, found):
    parts = [" / ".join(f"{value:.0f}" for _, value, _ in found[setting, attack]) for attack in ATTACKS]
    crowd = 4 if setting == "25 shards" else min(found[setting, attack][i][2] for attack in ATTACKS for i in range(3))
    return f"| {setting} | {crowd} | {' | '.join(parts)} |"


def test_the_table_is_what_was_run():
    found = cells()
    assert all(len(several) == 3 for several in found.values())
    for setting in ("25 shards", "helpers, groups of 4", "helpers, nested sets"):
        assert row(setting, found) in PAGE
