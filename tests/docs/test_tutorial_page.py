"""The tutorial names every setting of an experiment, and everything that its data, partitions and models can be."""

from pathlib import Path
from typing import get_args

import pytest

from f2ed.learning import AnyDataset, AnyModel, AnyPartition
from f2ed.simulation import Experiment

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
TABLE = PAGE[PAGE.index("### All settings") :].split("\n\n")[1]
NOT_IN_FILES = {"helpers", "given", "imported"}
"""What a file states in another way."""


@pytest.mark.parametrize("name", [name for name in Experiment.__struct_fields__ if name not in NOT_IN_FILES])
def test_every_setting_is_in_the_table(name):
    assert f"`{name}`" in TABLE


@pytest.mark.parametrize(
    ("setting", "registry"), [("data", AnyDataset), ("partition", AnyPartition), ("model", AnyModel)]
)
def test_every_kind_is_in_the_table(setting, registry):
    (row,) = (line for line in TABLE.splitlines() if line.startswith(f"| `{setting}` |"))
    kinds = {str(each.__struct_config__.tag) for each in get_args(registry)} - NOT_IN_FILES
    assert not {kind for kind in kinds if f"`{kind}`" not in row and f'`"{kind}"`' not in row}
