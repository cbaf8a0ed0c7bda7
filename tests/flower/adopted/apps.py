"""Apps like Flower's quickstarts, and the diffs of the page about them."""

import shutil
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "adopt_an_app.md"
_SECTIONS = {
    "pytorchexample": "## PyTorch",
    "sklearnexample": "## scikit-learn",
    "textexample": "## A text classifier",
    "tabularexample": "## A table",
}
APPS = tuple(_SECTIONS)


def diffs(page_part):
    """Return the changes that a part of a page shows, for the client and for the server."""
    blocks = [block.partition("```")[0].splitlines() for block in page_part.split("```diff\n")[1:]]
    return dict(zip(("client_app.py", "server_app.py"), blocks, strict=True))


def patched(text, diff):
    """Apply a diff: a new line replaces the old one before it, or follows the last; imports are the first lines."""
    lines, old, last = text.splitlines(), None, 0
    for line in diff:
        mark, content = line[0], line[1:]
        if mark == "-":
            assert lines.count(content) == 1, f"{content!r} is not in the app"
            old = lines.index(content)
            continue
        assert mark == "+"
        if old is not None:
            lines[old], last, old = content, old, None
        elif content.startswith("from"):
            lines.insert(
                next(place for place, each in enumerate(lines) if each.startswith(("import", "from"))), content
            )
        else:
            last += 1
            lines.insert(last, content)
    assert old is None, "a line was taken away and none put in its place"
    return "\n".join(lines) + "\n"


def write_adopted(name, folder, *, adopted=True):
    """Copy an app to a folder, with the changes of the page or as it is."""
    shutil.copytree(HERE / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    if not adopted:
        return folder
    for file, diff in diffs(_section(_SECTIONS[name])).items():
        assert sum(line.startswith("+") for line in diff) <= 2
        _patch(folder / name / file, diff)
    settings = folder / "pyproject.toml"
    settings.write_text(settings.read_text() + 'f2ed-roster = "test:10"\n')
    return folder


def write_in_bfloat16(folder):
    """Copy the text classifier to a folder, adopted, and with the changes that the page shows for bfloat16."""
    write_adopted("textexample", folder)
    for file, diff in diffs(_section("## A model in bfloat16")).items():
        _patch(folder / "textexample" / file, diff)
    return folder


def _section(title):
    return PAGE.read_text().split(f"{title}\n")[1].split("\n## ")[0]


def _patch(path, diff):
    path.write_text(patched(path.read_text(), diff))


def settings_of(folder):
    """Return an app's settings."""
    return tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
