"""The threat model names a test for every claim: each exists, and a run of the whole suite insists that it passed."""

import ast
import re
from functools import cache
from types import SimpleNamespace

import pytest

from tests.named_tests import PAGES, ROOT, Outcomes, is_whole, named_in_pages, named_tests

THREAT_MODEL = PAGES[0].read_text(encoding="utf-8")
NAMED = named_in_pages()


@cache
def tree(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def marks(path, name):
    """Return the decorators of a test and the marks of its module, as text; None if there is no such test."""
    found = [node for node in tree(path).body if isinstance(node, ast.FunctionDef) and node.name == name]
    of_module = [node.value for node in tree(path).body if isinstance(node, ast.Assign) and is_mark(node)]
    return [ast.unparse(each) for each in (*found[0].decorator_list, *of_module)] if found else None


def is_mark(node):
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


@pytest.mark.parametrize("test", NAMED)
def test_a_named_test_exists_and_is_not_switched_off(test):
    path, _, name = test.partition("::")
    assert path.rpartition("/")[2].startswith("test_")
    assert name.startswith("test_")
    found = marks(path, name)
    assert found is not None, f"{path} has no test {name}"
    assert not any(re.search(r"\bmark\.(skip|xfail)\b", each) for each in found)


def tables(text):
    """Return the cells of all rows of tables whose last column is for tests."""
    rows, on = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            on = False
        elif cells[-1] == "test":
            on = True
        elif on and set(line) - set("|-: "):
            rows.append(cells)
    return rows


def test_every_claim_of_the_threat_model_names_a_test():
    rows = tables(THREAT_MODEL)
    assert len(rows) > 30
    assert [cells for cells in rows if len(cells) != 3 or not named_tests(cells[2])] == []


def test_a_test_that_is_named_and_missing_is_found():
    assert marks("tests/docs/test_threat_model.py", "test_of_nothing") is None
    assert named_tests("`tests/a/test_b.py::test_c`, again tests/a/test_b.py::test_c[x]") == [
        "tests/a/test_b.py::test_c"
    ]


@pytest.mark.parametrize(
    ("outcomes", "proven"),
    [
        ({}, False),
        ({"tests/test_a.py::test_it": "passed"}, True),
        ({"tests/test_a.py::test_it[1]": "passed", "tests/test_a.py::test_it[2]": "passed"}, True),
        ({"tests/test_a.py::test_it[1]": "passed", "tests/test_a.py::test_it[2]": "skipped"}, False),
        ({"tests/test_a.py::test_it": "skipped"}, False),
        ({"tests/test_a.py::test_it": "failed"}, False),
    ],
)
def test_a_named_test_must_have_run_and_passed(outcomes, proven):
    seen = Outcomes()
    for node_id, outcome in outcomes.items():
        seen.add(node_id, outcome)
    assert seen.unproven(["tests/test_a.py::test_it"]) == ([] if proven else ["tests/test_a.py::test_it"])


def test_tests_with_real_processes_and_those_of_the_night_run_elsewhere():
    names = ["tests/real_deployment/test_a.py::test_it", "tests/test_b.py::test_it"]
    assert Outcomes().unproven(names, nightly={"tests/test_b.py::test_it"}) == []


def config(source="TESTPATHS", **options):
    class Config:
        ArgsSource = pytest.Config.ArgsSource
        args_source = pytest.Config.ArgsSource[source]
        option = SimpleNamespace(
            **{
                "keyword": "",
                "markexpr": "not nightly",
                "deselect": None,
                "ignore": None,
                "ignore_glob": None,
                "lf": False,
                "collectonly": False,
            }
            | options
        )

    return Config()


def test_only_a_run_of_the_whole_suite_is_judged():
    assert is_whole(config())
    assert not is_whole(config("ARGS"))
    for narrowed in ({"keyword": "a"}, {"markexpr": "nightly"}, {"deselect": ["a"]}, {"lf": True}):
        assert not is_whole(config(**narrowed))
