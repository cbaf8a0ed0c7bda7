"""The page on data beyond MNIST is what its script writes from the committed records."""

from pathlib import Path

from f2ed.experiments.reproduction.quoted import logs_of
from f2ed.experiments.reproduction.real_data import EXPERIMENTS, real_data_page

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


def test_interrupted_runs_are_compared_after_as_many_rounds():
    page = " ".join(real_data_page(ROOT / "results").split())
    section = page[page.index("## CIFAR-10, ResNet-18") : page.index("## CIFAR-10, a small CNN")]
    logs = {log.header.name: log for log in logs_of(ROOT / "results" / "cifar10")}
    stopped, plain = logs["seed 0, FilterL2, none"], logs["seed 0, Mean, none"]
    assert not stopped.finished
    assert plain.finished
    count = len(stopped.rounds)
    reached = f"seed 0: {100 * stopped.rounds[-1].accuracy:.1f} after {count} of {plain.header.rounds} rounds"
    assert f"{reached}, plain averaging then {100 * plain.rounds[count - 1].accuracy:.1f}" in section
