"""A plug-in is one file: it brings its own description, and nothing else but the union and an example names it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from f2ed.attacks import AnyAttack, Attack
from f2ed.estimators import AnyEstimator, Estimator

ROOT = Path(__file__).parents[1]
ATTACKS, ESTIMATORS = get_args(AnyAttack), get_args(AnyEstimator)
EVERY = pytest.mark.parametrize("plugin", ESTIMATORS + ATTACKS, ids=lambda each: each.__name__)
FAMILIES = {base: get_args(get_args(base.__annotations__["family"])[0]) for base in (Attack, Estimator)}


@EVERY
def test_a_plugin_has_a_title_a_family_and_a_paper(plugin):
    base = Attack if issubclass(plugin, Attack) else Estimator
    assert plugin.title.strip()
    assert plugin.family in FAMILIES[base]
    assert re.search(r"[A-Z]\w+.*\b(19|20)\d\d\b", plugin.paper), "authors and a year"


@pytest.mark.parametrize("union", [ATTACKS, ESTIMATORS], ids=["attacks", "estimators"])
def test_titles_kinds_and_aliases_are_unique(union):
    titles = [each.title for each in union]
    names = [name for each in union for name in (each.__struct_config__.tag, *getattr(each, "aliases", ()))]
    assert len(set(titles)) == len(titles)
    assert len(set(names)) == len(names)


@EVERY
def test_descriptions_are_no_settings(plugin):
    assert not {"title", "family", "paper", "aliases"} & set(plugin.__struct_fields__)


def test_private_packages_are_imported_by_their_own_package_alone():
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "src/f2ed").rglob("*.py")
        for package in re.findall(r"(?:from|import) f2ed\.([\w.]+)\._\w", path.read_text("utf-8"))
        if not path.is_relative_to(ROOT / "src/f2ed" / package.replace(".", "/"))
    }
    assert not found


@pytest.mark.parametrize(
    ("words", "package"),
    [(r"mea-med|mea_med|MeaMed", "estimators"), (r"label-flip|label_flip|LabelFlip", "attacks")],
)
def test_nothing_but_its_file_and_the_union_names_a_plugin(words, package):
    named = {
        str(path.relative_to(ROOT / "src/f2ed"))
        for path in (ROOT / "src/f2ed").rglob("*")
        if path.suffix in {".py", ".js", ".html", ".css", ".toml"} and re.search(words, path.read_text("utf-8"))
    }
    own = re.findall(r"\w+_\w+", words)[0]
    # The search has ranges for the attacks whose settings it varies; another attack is none the worse.
    assert named - {"experiments/search/space.py"} == {f"{package}/__init__.py", f"{package}/{own}.py"}


DIFFS = re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diffs")
def test_the_diffs_of_the_contributing_page_are_all_it_takes(tmp_path):
    for part in ("src/f2ed", "tests/estimators", "tests/attacks"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("tests/__init__.py", "tests/test_plugins.py", "tests/docs/test_attacks_page.py", "docs/attacks.md"):
        (tmp_path / part).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    for diff in DIFFS:
        subprocess.run([shutil.which("git"), "apply", "-"], input=diff, cwd=tmp_path, check=True, text=True)
    suite = ("tests/estimators/test_every_estimator.py", "tests/attacks/test_every_attack.py", "tests/docs")
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "Medoid or FreeRider or has_an_example",
    ]
    done = subprocess.run(
        [*run, *suite],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 50
