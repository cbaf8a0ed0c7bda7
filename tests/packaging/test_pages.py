"""What the pages say can be done: links lead somewhere, commands parse, names exist."""

import re
import shlex
from pathlib import Path

import pytest

import f2ed
import tests.flower.conftest  # noqa: F401  loads flwr without the warnings of its dependencies
from f2ed.attacks import AnyAttack
from f2ed.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md"), *ROOT.glob("deploy/*.md")],
)
COMING_FROM = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")


def name(path):
    return str(path.relative_to(ROOT))


def text(path):
    return path.read_text(encoding="utf-8")


def commands(path):
    blocks = re.findall(r"^```(?:console|bash|sh)\n(.*?)^```", text(path), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    return [re.split(r"  #| [|>] ", line.removeprefix("$ "))[0] for line in lines if re.match(r"(\$ )?f2ed ", line)]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_to_files_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(path))
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert [link for link in missing if not link.startswith("reference/")] == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_to_headings_lead_somewhere(path):
    links = re.findall(r"\]\(([^)#\s:]*\.md)?#([\w-]+)\)", text(path))
    missing = [(page, anchor) for page, anchor in links if anchor not in anchors(path.parent / page if page else path)]
    assert missing == []


def anchors(path):
    headings = re.findall(r"^#+ (.+)$", text(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [page for page in PAGES if commands(page)], ids=name)
def test_commands_parse(path):
    for command in commands(path):
        words = shlex.split(command)[1:]
        if {"--help", "--version", "…", "..."}.isdisjoint(words):
            app.parse_args(words, print_error=False, exit_on_error=False)


def test_every_estimator_of_the_name_map_exists_with_these_settings():
    table = COMING_FROM.partition("## Estimators")[2].partition("## Attacks")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    calls = [call for cell in first for call in re.findall(r"`(\w+\([^`]*\))`", cell)]
    names = set()
    for call in calls:
        made = eval(call.replace("inner=…", "inner=Mean()").replace("radius=…", "radius=1.0"), vars(f2ed.estimators))  # noqa: S307
        names.add(type(made).__name__)
    assert names == {each.__name__ for each in f2ed.estimators.AnyEstimator.__args__}


def test_every_attack_of_the_name_map_exists_and_none_is_missing():
    table = COMING_FROM.partition("## Attacks")[2].partition("## Data")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    kinds = {kind for cell in first for kind in re.findall(r"`([\w-]+)`", cell)}
    assert kinds == {each.__struct_config__.tag for each in AnyAttack.__args__}


def test_an_estimator_takes_exactly_one_of_f_and_contamination():
    with pytest.raises(ValueError, match="one of the two"):
        f2ed.Krum(f=2, contamination=0.1)
    with pytest.raises(ValueError, match="contamination"):
        f2ed.Krum()


def test_the_diagram_of_the_layers_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "scripts")
    import layers

    drawn = layers.draw(*layers.layers(ROOT / "pyproject.toml"))
    assert drawn == text(ROOT / "docs" / "diagrams" / "layers.svg")
    assert set(layers.PURPOSE) == {path.parent.name for path in (ROOT / "src" / "f2ed").glob("*/__init__.py")}
