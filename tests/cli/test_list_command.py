"""`f2ed list`: whole sentences, types, defaults and choices; and shipped experiments."""

import json
import subprocess
import sys
import textwrap
from typing import get_args

import pytest

from f2ed.attacks import AnyAttack
from f2ed.cli.list import Kind
from f2ed.cli.setting import settings_of
from f2ed.estimators import AnyEstimator, Bulyan, FilterL2, Krum

WITHOUT_TORCH = """
    import sys

    class Nothing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"torch", "flwr"}:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

    sys.meta_path.insert(0, Nothing())
    from f2ed.cli import main
    main()
"""


def one_line(text):
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("estimators", "filter-l2"),
        ("attacks", "trimmed-mean-attack"),
        ("datasets", "mnist"),
        ("models", "cnn"),
        ("losses", "bce"),
        ("metrics", "rmse"),
        ("partitions", "iid"),
        ("schedules", "batches"),
        ("server-optimizers", "fedadam"),
        ("rate-schedules", "cosine"),
        ("experiments", "demo"),
    ],
)
def test_every_kind_is_listed(f2ed, kind, name):
    _, out, _ = f2ed("list", kind, "--json")
    found = {entry["name"]: entry for entry in json.loads(out)}
    assert len(found[name]["what"]) > 10
    assert {entry["kind"] for entry in found.values()} == {kind}
    _, shown, _ = f2ed("list", kind)
    assert name in shown


def test_without_a_kind_everything_is_listed(f2ed):
    _, out, err = f2ed("list", "--json")
    assert {entry["kind"] for entry in json.loads(out)} == set(get_args(Kind))
    assert not err


@pytest.mark.parametrize(("kind", "union"), [("estimators", AnyEstimator), ("attacks", AnyAttack)])
def test_plugins_are_described_in_full_in_a_narrow_terminal(f2ed, monkeypatch, kind, union):
    monkeypatch.setenv("COLUMNS", "60")
    shown = one_line(f2ed("list", kind)[1])
    for each in get_args(union):
        about = [each.title, each.family, each.paper, each.__doc__.split("\n\n")[0], *getattr(each, "aliases", ())]
        assert all(one_line(text) in shown for text in about), each


def test_settings_have_a_type_a_default_and_choices():
    krum, filter_l2, bulyan = ({each.name: each for each in settings_of(rule)} for rule in (Krum, FilterL2, Bulyan))
    assert krum["contamination"].type == "number ≥ 0 and < 0.5"
    assert krum["contamination"].default_text == "or f"
    assert krum["f"].default_text == "or contamination"
    assert filter_l2["eta"].default_text == "default 20.0"
    assert filter_l2["sigma"].default_text == "optional"
    assert filter_l2["variant"].type == '"paper" | "released"'
    assert bulyan["inner"].type == '"krum" | "trimmed-mean" | "median"'


def test_the_experiments_of_an_installed_package_are_found(f2ed, monkeypatch, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "mine.toml").write_text('title = "My experiment"\n')
    monkeypatch.setattr(sys.modules["f2ed.core.shipped"], "_FOLDERS", (folder, tmp_path / "none"))
    _, out, _ = f2ed("list", "experiments", "--json")
    assert json.loads(out) == [
        {"kind": "experiments", "name": "mine", "what": "My experiment", "path": str(folder / "mine.toml")}
    ]


def test_no_shipped_experiments_are_an_empty_list(f2ed, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules["f2ed.core.shipped"], "_FOLDERS", (tmp_path / "none",))
    assert json.loads(f2ed("list", "experiments", "--json")[1]) == []


def without_torch(*arguments):
    program = [sys.executable, "-c", textwrap.dedent(WITHOUT_TORCH), *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_without_torch_the_rest_is_listed_and_the_extra_is_named():
    found = without_torch("list")
    assert found.returncode == 0, found.stderr
    assert "krum-attack" in found.stdout
    assert "demo" in found.stdout
    assert "datasets are left out" in found.stderr
    assert "f2ed[train]" in found.stderr
    asked = without_torch("list", "models")
    assert asked.returncode != 0
    assert "f2ed[train]" in asked.stderr
    assert "Traceback" not in asked.stderr
