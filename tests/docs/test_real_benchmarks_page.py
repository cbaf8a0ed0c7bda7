"""The page on data beyond MNIST is what its script writes from the committed records."""

import lzma
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from f2ed.experiments.reproduction.quoted import logs_of
from f2ed.experiments.reproduction.real_data import EXPERIMENTS, real_data_curves, real_data_page

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_script_writes():
    assert (ROOT / "docs" / "real_benchmarks.md").read_text(encoding="utf-8") == real_data_page(ROOT / "results")


def test_without_records_every_experiment_says_so(tmp_path):
    page = real_data_page(tmp_path)
    assert " ".join(page.split()).count("Not run yet") == len(EXPERIMENTS)
    assert "|" not in page


def test_a_table_has_a_row_for_each_rule_and_the_spread_over_seeds():
    page = real_data_page(ROOT / "results")
    section = page[page.index("## Adult") :]
    assert "| rule | no attack | label flip | Min-Max | TMA | Edge |" in section
    assert [line.split(" |")[0] for line in section.splitlines() if "(" in line and line.startswith("| ")] == [
        "| Mean",
        "| FilterL2",
        "| Fence",
    ]


def test_interrupted_runs_are_compared_after_as_many_rounds(tmp_path):
    count, cut = 20, "seed 0, FilterL2, none"
    lines = lzma.decompress((ROOT / "results" / "cifar10.jsonl.xz").read_bytes()).decode().splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if line.startswith('{"record":"run"')]
    (tmp_path / "cifar10").mkdir()
    for first, after in pairwise([*starts, len(lines)]):
        kept = lines[first : first + 1 + count] if f'"name":"{cut}"' in lines[first] else lines[first:after]
        (tmp_path / "cifar10" / f"{first}.jsonl").write_text("".join(kept), encoding="utf-8")
    page = " ".join(real_data_page(tmp_path).split())
    section = page[page.index("## CIFAR-10, ResNet-18") : page.index("## CIFAR-10, a small CNN")]
    logs = {log.header.name: log for log in logs_of(ROOT / "results" / "cifar10")}
    stopped, plain = logs[cut], logs["seed 0, Mean, none"]
    reached = f"seed 0: {100 * stopped.rounds[count - 1].accuracy:.1f} after {count} of {plain.header.rounds} rounds"
    assert f"{reached}, plain averaging then {100 * plain.rounds[count - 1].accuracy:.1f}" in section


def test_without_an_attack_the_distance_from_plain_averaging_is_told_with_its_spread():
    page = " ".join(real_data_page(ROOT / "results").split())
    section = page[page.index("## CIFAR-10, ResNet-18") : page.index("## CIFAR-10, a small CNN")]
    logs = {log.header.name: log for log in logs_of(ROOT / "results" / "cifar10")}
    gaps = [
        100
        * (
            logs[f"seed {seed}, FilterL2, none"].rounds[-1].accuracy
            - logs[f"seed {seed}, Mean, none"].rounds[-1].accuracy
        )
        for seed in range(3)
    ]
    assert f"FilterL2 {fmean(gaps):+.1f} (3 seeds, {min(gaps):+.1f} to {max(gaps):+.1f})" in section


def test_curves_are_in_percent_for_every_attack_that_was_run():
    panels = real_data_curves("cifar10", ROOT / "results")
    assert [title for title in panels if title.startswith("no attack")] == ["no attack: accuracy"]
    plain = panels["no attack: accuracy"]["Mean, no shards"]
    assert len(plain) == 3
    assert all(len(seed) == 36 and 40 < seed[-1] < 60 for seed in plain)
