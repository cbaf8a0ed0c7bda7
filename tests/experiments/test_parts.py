"""A file may have parts, names for tables that they share, and a base to stand on."""

from collections import Counter
from pathlib import Path

import pytest

from f2ed.core.errors import ConfigError
from f2ed.estimators import FilterL2, Median
from f2ed.experiments import expand, read
from f2ed.experiments.file import parse
from tests.experiments.small_grid import SMALL

FILES = Path(__file__).parents[2] / "experiments"


def changed(**lines):
    """Return the small file with some settings stated otherwise."""
    kept = [row for row in SMALL.splitlines() if row.split(" =")[0] not in lines]
    return "\n".join([*(f"{name} = {value}" for name, value in lines.items()), *kept])


PARTS = """
define.estimator.ours = { kind = "filter-l2" }
define.estimator.theirs = { kind = "filter-l2", sigma = 1.0 }

[[part]]
name = "first"
seed = [1]
estimator = ["ours"]

[[part]]
name = "second"
seed = [0, 1]
estimator = ["ours", "theirs"]
"""


def test_parts_follow_one_another_and_a_run_is_named_once():
    cells = expand(parse(changed(seed="0") + PARTS, "a.toml"))
    assert [(cell.part, cell.name) for cell in cells] == [
        ("first", "seed 1, ours"),
        ("second", "seed 0, ours"),
        ("second", "seed 0, theirs"),
        ("second", "seed 1, theirs"),
    ]
    assert cells[0].experiment.estimator == FilterL2(0.25)
    assert cells[2].experiment.estimator == FilterL2(0.25, sigma=1.0)


def test_parts_are_chosen_by_name():
    file = parse(changed(seed="0") + PARTS, "a.toml")
    assert [cell.part for cell in expand(file.only_parts(["first"]))] == ["first"]
    assert len(expand(file.only_parts([]))) == 4
    with pytest.raises(ConfigError, match="unknown part third; choose from: first, second"):
        file.only_parts(["third"])
    with pytest.raises(ConfigError, match="the file has no parts"):
        parse(SMALL, "a.toml").only_parts(["third"])


def test_a_setting_changed_from_outside_holds_in_every_part():
    file = parse(changed(rounds="2") + PARTS + "rounds = 7\n", "a.toml").changed(rounds=1)
    assert {cell.experiment.rounds for cell in expand(file)} == {1}


def test_the_quick_version_has_its_settings_and_no_parts():
    file = parse(changed(rounds="2") + PARTS + "\n[quick]\nrounds = 1\n", "a.toml")
    assert [(cell.part, cell.experiment.rounds) for cell in expand(file.quickly())] == [("", 1)]
    with pytest.raises(ConfigError, match=r"a\.toml has no quick version; add one under \[quick\]"):
        parse(SMALL, "a.toml").quickly()
    with pytest.raises(ConfigError, match=r"quick: found 3; expected a table"):
        parse(f"quick = 3\n{SMALL}", "a.toml")
    with pytest.raises(ConfigError, match=r"quick\.rouns: .* did you mean rounds"):
        parse(f"{SMALL}\n[quick]\nrouns = 3", "a.toml")


def test_a_base_lends_settings_and_names(tmp_path):
    (tmp_path / "base.toml").write_text(changed(rounds="2") + '\n[define.estimator]\nours = { kind = "median" }\n')
    file = tmp_path / "a.toml"
    file.write_text('base = "base.toml"\nrounds = 5\nestimator = "ours"\n')
    (cell,) = expand(read(file))
    assert (cell.experiment.rounds, cell.experiment.estimator) == (5, Median())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[[part]]\nseed = 1", r"part\[0\]\.name: expected a quoted string"),
        ('[[part]]\nname = "a"\nsed = 1', r"part\[0\]\.sed: unknown setting; did you mean seed"),
        ('[[part]]\nname = "a"\n[[part]]\nname = "a"', "two parts are called a"),
        ('[part]\nname = "a"', "expected tables, each starting with"),
        (
            '[[part]]\nname = "a"\nestimator = ["mean", "krumm"]',
            r"part\[0\]\.estimator\[1\]\.kind: there is no 'krumm'",
        ),
        ('[[part]]\nname = "a"\n[fallback]\ndata = "digits"', "not available in a file with parts"),
        ("define.estimator = 3", "expected names by setting"),
        ('define.estimator.mine = "mean"', r"define\.estimator\.mine: .* expected a table with a kind"),
        ("define.estimatr.mine = {}", r"define\.estimatr: .* did you mean estimator"),
        ("base = 3", "base: found 3"),
        ('base = "nowhere.toml"', "nowhere.toml cannot be read"),
    ],
)
def test_what_is_wrong_with_parts_names_and_bases_is_said(text, error):
    with pytest.raises(ConfigError, match=error):
        expand(parse(f"{text}\n{SMALL}" if text.startswith(("define", "base")) else f"{SMALL}\n{text}", "a.toml"))


def test_a_base_stands_on_no_other(tmp_path):
    (tmp_path / "a.toml").write_text('base = "a.toml"\n')
    with pytest.raises(ConfigError, match=r"a\.toml: base: a base file cannot have a base"):
        read(tmp_path / "a.toml")


def test_a_base_has_no_parts_of_its_own(tmp_path):
    (tmp_path / "base.toml").write_text(SMALL + '\n[[part]]\nname = "a"\n')
    (tmp_path / "a.toml").write_text('base = "base.toml"\n')
    with pytest.raises(ConfigError, match="has parts or a fallback of its own"):
        read(tmp_path / "a.toml")


@pytest.mark.parametrize("file", sorted(FILES.glob("*.toml")), ids=lambda file: file.stem)
def test_every_file_that_comes_along_can_be_laid_out(file):
    assert expand(read(file))


@pytest.mark.parametrize("file", sorted(FILES.glob("fig*.toml")), ids=lambda file: file.stem)
def test_every_arm_of_a_figure_has_the_same_settings_but_for_its_axes(file):
    cells = [cell for cell in expand(read(file)) if "dba" not in cell.part]
    common = {(cell.experiment.model, cell.experiment.training, cell.experiment.rounds) for cell in cells}
    assert len(common) == 1
    assert all({"seed", "attack", "estimator"} <= set(cell.arm) for cell in cells)


@pytest.mark.parametrize("file", sorted(FILES.glob("*.toml")), ids=lambda file: file.stem)
def test_runs_of_one_file_that_differ_in_more_than_the_seed_have_different_labels(file):
    labels = Counter(tuple(cell.arm.items()) for cell in expand(read(file)))
    assert labels.most_common(1)[0][1] == 1
