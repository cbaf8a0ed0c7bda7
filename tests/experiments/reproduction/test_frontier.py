"""The frontier of rules: from runs to standings, and from standings to a choice."""

from types import SimpleNamespace

import pytest

from f2ed.attacks import DBA, Edge
from f2ed.experiments.reproduction.frontier import Standing, setting_table, standings, undominated
from f2ed.learning.datasets import Mnist
from f2ed.report.frontier import draw_frontier

ATTACKS = {"none": None, "Edge": Edge(), "DBA": DBA()}
ENDS = {
    "Mean": {"none": (0.95, None), "Edge": (0.40, None), "DBA": (0.94, 0.99)},
    "Fence": {"none": (0.94, None), "Edge": (0.90, None), "DBA": (0.93, 0.02)},
    "Half run": {"none": (0.95, None), "Edge": (0.95, None)},
}


def grid():
    cells, found = [], {}
    for rule, ends in ENDS.items():
        for attack, settings in ATTACKS.items():
            slug = f"{rule}-{attack}"
            arm = {"estimator": rule, "attack": attack, "partition": "i.i.d."}
            cells.append(
                SimpleNamespace(
                    slug=slug, arm=arm, experiment=SimpleNamespace(attack=settings, data=Mnist(), sharded=True)
                )
            )
            if attack in ends:
                accuracy, success = ends[attack]
                found[slug] = SimpleNamespace(final_accuracy=accuracy, rounds=[SimpleNamespace(success=success)])
    return cells, found


def test_a_standing_is_what_a_rule_costs_and_what_its_worst_attacks_do():
    mean, fence = standings(*grid())
    assert mean.setting == "mnist, i.i.d."
    assert (mean.rule, mean.cost, mean.lost, mean.backdoor) == ("Mean", 0, pytest.approx(55), pytest.approx(99))
    assert (fence.cost, fence.lost, fence.backdoor) == (pytest.approx(1), pytest.approx(5), pytest.approx(2))
    assert fence.row == ("94.0", "90.0 (Edge)", "2.0 (DBA)", "not run")
    assert fence.listed == pytest.approx(2)


def test_a_rule_that_another_beats_in_both_is_dominated():
    every = [Standing("a", "one", 0, 1, 50), Standing("a", "two", 0, 40, 2), Standing("a", "three", 0, 41, 50)]
    assert [each.rule for each in undominated(every)] == ["one", "two"]
    assert [row[0] for row in setting_table(every, "a").rows] == ["**two**", "**one**", "three"]


def test_the_same_points_give_the_same_picture(tmp_path):
    pytest.importorskip("matplotlib")
    panels = {"i.i.d.": {"Mean": (20.0, 99.0), "Fence": (0.2, 0.5)}}
    for name in ("one.svg", "other.svg"):
        draw_frontier(panels, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()
    assert "2 Fence" in (tmp_path / "one.svg").read_text("utf-8")
