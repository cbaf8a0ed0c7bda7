"""What `make mutants` asks for: every mutant that lives is explained, by a name that survives edits elsewhere."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = """
[[kind]]
why = "the same to Python"
mutants = ["m:f | a → b", "m:f | a → c"]
"""


@pytest.fixture
def tool(monkeypatch):
    """Return a module of the script."""
    monkeypatch.syspath_prepend(ROOT / "scripts" / "mutants")
    loaded = []

    def load(name):
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in ("made", *loaded):
        sys.modules.pop(name, None)


@pytest.fixture
def explained(tool, tmp_path):
    path = tmp_path / "explained.toml"
    path.write_text(LIST, "utf-8")
    return tool("listed").Explained.read(path)


def test_a_mutant_that_lives_unexplained_is_named(tool, explained, capsys):
    ends = {"m:f | a → b": "survived", "m:f | a → c": "no test", "m:g | x → y": "survived", "m:g | x → z": "killed"}
    assert explained.missing(ends) == ["m:g | x → y"]
    assert not tool("listed").report(ends, ends, explained)
    assert "survived: m:g | x → y" in capsys.readouterr().out


def test_with_every_living_mutant_explained_the_run_passes(tool, explained):
    ends = {"m:f | a → b": "survived", "m:f | a → c": "survived", "m:g | x → y": "timeout"}
    assert tool("listed").report(ends, ends, explained)


def test_a_mutant_whose_tests_are_not_all_run_counts_as_alive(explained):
    assert explained.missing({"m:g | x → y": "open"}) == ["m:g | x → y"]


def test_a_mutant_that_was_never_run_is_not_alive_but_counted(tool):
    assert (
        tool("listed")
        .table({"m:f | a → b": "killed"}, ["m:f | a → b", "m:f | a → c"])
        .endswith("| together | 2 | 1 | 0 | 0 | 0 | 0 | 1 |")
    )


def test_explanations_of_what_is_killed_or_gone_are_named(explained):
    assert explained.stale({"m:f | a → b": "killed"}, ["m:f | a → b"]) == ["m:f | a → b", "m:f | a → c"]


def test_a_mutant_has_one_explanation(tool, tmp_path):
    path = tmp_path / "explained.toml"
    path.write_text(LIST + LIST, "utf-8")
    with pytest.raises(ValueError, match=r"explained twice: m:f \| a → b"):
        tool("listed").Explained.read(path)


def test_a_name_holds_the_lines_that_change_and_nothing_else(tool):
    was = ["def x_f__mutmut_orig(a):", "    b = a + 1", "    return b"]
    becomes = ["def x_f__mutmut_7(a):", "    b = a - 1", "    return b"]
    assert tool("made").change(was, becomes) == "b = a + 1 → b = a - 1"


def test_every_explanation_names_a_function_of_the_source(tool):
    for name in tool("listed").Explained.read().why:
        module, _, function = name.partition(" | ")[0].partition(":")
        path = ROOT / "src" / Path(*module.split("."))
        text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")
        assert f"def {function.rpartition('.')[2]}(" in text, name
