"""What every plug-in brings along, so that no table elsewhere has to name it."""

import re
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
