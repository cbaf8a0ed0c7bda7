"""The page on attacks speaks of every attack and every setting, and its example runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.attacks.attack_examples import MEMBERS

PAGE = Path(__file__).parents[2] / "docs" / "attacks.md"
TEXT = PAGE.read_text(encoding="utf-8")
SAID_ELSEWHERE = {"knowledge", "shard_aware", "variant"}  # for all attacks at once, and by their own words
LEFT_TO_THE_REFERENCE = {"epochs", "momentum", "weight_decay", "slack", "trigger", "z", "share", "target"}


@pytest.mark.parametrize("attack", MEMBERS, ids=lambda attack: attack.__name__)
def test_the_page_speaks_of_every_attack_by_its_kind(attack):
    assert f"`{attack.__struct_config__.tag}`" in TEXT


@pytest.mark.parametrize("attack", MEMBERS, ids=lambda attack: attack.__name__)
def test_the_page_speaks_of_every_setting(attack):
    settings = set(attack.__struct_fields__) - SAID_ELSEWHERE - LEFT_TO_THE_REFERENCE
    missing = [name for name in settings if not re.search(rf"`{name}\b", TEXT)]
    assert not missing


def test_the_example_of_the_page_runs():
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    names = {}
    exec(code, names)  # noqa: S102  the page's own code
    assert names["sent"].shape == (4, 1000)
    assert np.isfinite(names["sent"]).all()
