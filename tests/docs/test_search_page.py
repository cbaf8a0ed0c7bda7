"""The page on searching: its example runs, and its parts are those of the shipped file."""

import re
from pathlib import Path

from f2ed.experiments import find, read

TEXT = (Path(__file__).parents[2] / "docs" / "search_attacks.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    exec(code, {})  # noqa: S102  the page's own code
    assert "median, backdoor" in capsys.readouterr().out


def test_the_page_names_every_part_of_the_shipped_setting():
    parts = [name for name, _ in read(find(Path("search"))).parts]
    assert not [name for name in parts[1:] if f"`{name}`" not in TEXT]
