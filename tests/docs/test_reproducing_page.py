"""The page about the paper's figures says what the committed records say."""

import shutil
import statistics
import sys
from pathlib import Path

import pytest

from f2ed.experiments.reproduction.paper import stated
from f2ed.records import read_all
from f2ed.records.archive import packed

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "scripts"))

import backdoors  # noqa: E402  it lies in the folder just named
import quoted  # noqa: E402
import reproducing  # noqa: E402

RESULTS = ROOT / "results"


def test_the_page_is_what_the_script_makes_of_the_records():
    assert (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8") == reproducing.page(RESULTS)


@pytest.mark.parametrize(("page", "short"), [("docs/index.md", False), ("README.md", True)])
def test_so_are_the_worst_cases_on_the_front_pages(page, short):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert reproducing.BEGIN in text
    assert reproducing.front(RESULTS, text, short=short) == text


def test_so_is_the_advice_on_choosing_an_estimator():
    text = (ROOT / "docs" / "choosing_estimator.md").read_text(encoding="utf-8")
    assert reproducing.BEGIN in text
    assert reproducing.advice(RESULTS, text) == text


def test_what_was_not_run_is_said(tmp_path):
    page = reproducing.page(tmp_path)
    assert "None of it was run." in page
    assert "0 as good or better, 0 within half a point, 0 worse, 36 not run" in page
    assert "`f2ed reproduce fig3` does" in page
    assert "was not run" in reproducing.advice(tmp_path, f"{reproducing.BEGIN}{reproducing.END}")
    assert "It was not run." in reproducing.front(tmp_path, f"{reproducing.BEGIN}{reproducing.END}")


def test_a_record_less_is_a_page_that_differs(tmp_path):
    shutil.copytree(RESULTS, tmp_path / "results")
    archive = tmp_path / "results" / "fig2_shards.jsonl.xz"
    archive.write_bytes(packed(read_all(archive)[1:]))
    assert reproducing.page(tmp_path / "results") != reproducing.page(RESULTS)


def test_a_rule_that_one_worst_case_lacks_is_said_not_to_be_run(tmp_path):
    for name, rule in (("worst_case", "Krum"), ("worst_case_few_classes", "Mean")):
        wanted = {"malicious": "10", "shards": "none", "attack": "ALIE", "estimator": rule}
        kept = [log for log in read_all(RESULTS / name) if log.header.arm == wanted]
        (tmp_path / f"{name}.jsonl.xz").write_bytes(packed(kept))
    made = reproducing.front(tmp_path, f"{reproducing.BEGIN}{reproducing.END}", short=True)
    assert "| Krum | not run |" in made
    assert made.count("not run |") >= 3


def test_the_front_page_keeps_what_stands_around_the_table(tmp_path):
    made = reproducing.front(tmp_path, f"before {reproducing.BEGIN}old{reproducing.END} after")
    assert made.startswith("before ")
    assert made.endswith(" after")
    assert "old" not in made


# What the pages conclude in words, each with the records that it rests on.


def written(page):
    return " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())


def measured(figure, attack):
    (panel,) = [
        each for each in reproducing.reproduced(figure, RESULTS).ends if (each.data, each.attack) == ("mnist", attack)
    ]
    return {arm: end for arm, end in panel.arms.items() if end is not None}


def ends(figure, attack):
    return {arm: end.mean for arm, end in measured(figure, attack).items()}


def worst_backdoor(case, shards, rule):
    table = reproducing._table(reproducing.reproduced(case, RESULTS))
    (row,) = [row for row in table.rows if row[:2] == (shards, rule)]
    return float(row[table.head.index("10 malicious: backdoor")].split()[0])


def test_it_is_true_that_the_authors_filter_needs_shards_where_labels_are_few_and_the_exact_one_does_not():
    assert "Its own filter needs them there; the exact one does not." in written("reproducing.md")
    alone, dealt = ends("fig4", "KA (released)"), ends("fig5", "KA (released)")
    assert alone["FilterL2 (paper)"] < dealt["FilterL2 (paper)"] - 0.02
    assert alone["FilterL2"] > dealt["FilterL2"]


def test_it_is_true_that_few_labels_hide_those_who_run_dba():
    assert "the attackers do not stand out among clients with three labels each" in written("reproducing.md")
    few, alike = (measured(figure, "DBA ResNet18")["FilterL2"] for figure in ("fig4", "fig1"))
    assert few.spoilt > 0.8 * 0.1
    assert alike.spoilt < 0.05 * 0.25


def test_it_is_true_that_pixels_and_rate_of_the_authors_script_lead_where_the_text_is():
    text = written("reproducing.md")
    assert "where the text is, and averaging with" in text
    assert "So the text's two numbers may be of different settings" in text
    assert "Such labels alone, with the pixels and the rate of Figure 5, do not get there" in text
    dealt, alone, alike = (
        quoted.by_rule("few_classes_released", part, RESULTS) for part in ("figure5", "figure4", "neighbors-normalized")
    )
    says, says_alone = (stated(figure, "mnist", "FilterL2")["KA"] for figure in ("fig5", "fig4"))
    assert dealt["FilterL2 (paper)"].mean == pytest.approx(says, abs=0.005)
    with_other_pixels = abs(alone["FilterL2 (paper)"].mean - says_alone)
    assert abs(ends("fig4", "KA (released)")["FilterL2 (paper)"] - says_alone) < 0.5 * with_other_pixels
    as_here = ends("fig5", "KA (released)")
    assert max(as_here.values()) < says - 0.015
    assert all(alike[rule].mean < as_here[rule] for rule in ("FilterL2", "FilterL2 (paper)", "Mean"))


def test_it_is_true_that_the_last_rounds_let_dba_in_and_that_later_attackers_stay_where_the_text_is():
    text = written("reproducing.md")
    assert "the last five let it in" in text
    assert "Twenty rounds of attack that begin later bring little, too" in text
    assert "there the text is (0.86)" in text
    (first,) = [log for log in quoted.logs_of(RESULTS / "fig4_noniid") if backdoors._is_resnet(log)]
    (later,) = quoted.runs_of("dba_released", RESULTS, "figure4-resnet18-later")
    assert max(record.success for record in first.rounds[19:25]) < 0.05
    assert first.rounds[-1].success > 0.3
    (begun,) = [
        end for rule, end in quoted.by_rule("dba_released", "figure4-resnet18", RESULTS).items() if rule == "FilterL2"
    ]
    assert max(begun.mean, later.rounds[-1].success) < 0.2 * first.rounds[-1].success
    assert statistics.median(record.success for record in later.rounds[-8:]) == pytest.approx(0.0086, abs=0.001)


def test_it_is_true_that_neither_remedy_keeps_dba_out():
    assert "neither keeps it out" in written("reproducing.md")
    for part in ("momentum", "mixed"):
        (end,) = quoted.by_rule("dba_remedies", part, RESULTS).values()
        assert end.mean > 0.5


def test_it_is_true_that_pairs_get_back_most_of_what_is_lost():
    assert "Pairs get back most of what is lost" in written("reproducing.md")
    panels = quoted.ends_of("resharding", RESULTS)
    assert len(panels) == 4
    for panel in panels:
        kept, pairs, anew = (
            panel.arms[f"FilterL2, schedule {schedule}"].mean for schedule in ("fixed", "batches of 2", "every-round")
        )
        assert (pairs - kept) / (anew - kept) > 0.5


def test_it_is_true_that_a_quiet_backdoor_gets_past_filterl2_without_shards_only():
    text = written("index.md")
    assert "a backdoor that is no longer than an honest update gets past nearly every rule" in text
    assert "it does not get past FilterL2" in text
    assert worst_backdoor("worst-few-classes", "none", "FilterL2") > 50
    assert worst_backdoor("worst-few-classes", "25", "FilterL2") < 5


def test_it_is_true_that_half_of_the_shards_is_where_experience_ends():
    assert "Half of the shards is where experience ends" in written("choosing_p.md")
    (panel,) = [each for each in reproducing.reproduced("fig6", RESULTS).ends if each.attack == "TMA (released)"]
    by_shards = {shards: panel.arms[f"FilterL2, shards {shards}"] for shards in (1, 20, 25, 33, 50, 100)}
    assert by_shards[20].tainted == 10
    assert by_shards[20].mean == pytest.approx(by_shards[1].mean, abs=0.005)
    assert all(by_shards[shards].mean == pytest.approx(by_shards[100].mean, abs=0.005) for shards in (25, 33, 50))
