"""Mutants that are run together: each one that a test notices is found, and the others meet all of their tests."""

import importlib
import io
import json
import sys
from collections import namedtuple
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REACHING = {"m:f": ["t1", "t2"], "m:g": ["t1", "t2", "t3"], "m:h": ["t3"]}
Job = namedtuple("Job", "mutants tests about")  # noqa: PYI024
Ended = namedtuple("Ended", "job code said passed")  # noqa: PYI024


@pytest.fixture
def together(monkeypatch):
    """Return the module of the script."""
    monkeypatch.syspath_prepend(ROOT / "scripts" / "mutants")
    yield importlib.import_module("together")
    for name in ("together", "listed", "made", "outcomes"):
        sys.modules.pop(name, None)


class Driver:
    """Runs nothing: a test fails if a mutant is in place that it notices, or if it always fails."""

    def __init__(self, noticed, broken, whole):
        self.noticed, self.broken, self.whole = noticed, broken, whole
        self.ran = []

    def each(self, waiting):
        while (entry := waiting()) is not None:
            mutants, tests, about = entry
            for passed, test in enumerate(tests):
                self.ran.append((test, {each.name for each in mutants}))
                if test in self.broken or self.fails(test, {each.name for each in mutants}):
                    yield Ended(Job(mutants, tests, about), 1, {}, passed)
                    break
            else:
                yield Ended(Job(mutants, tests, about), 0, {}, len(tests))

    def fails(self, test, names):
        return any(needed <= names for needed in self.noticed.get(test, []))

    def seconds(self, _):
        return 5.0

    def show(self, _):
        pass


def run(together, names, noticed, broken=(), *, whole=True):
    """Return how these mutants end, by name, and what was run."""
    out, driver = io.StringIO(), Driver(noticed, broken, whole)
    mutants = [together.Mutant(name, name.partition(" ")[0], "1", "digest") for name in names]
    together.Together(driver, mutants, REACHING, out).run()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert sorted(line[0] for line in lines) == sorted(names), "each has one result"
    return {line[0]: (line[2], line[3]) for line in lines}, driver.ran


def test_each_mutant_that_a_test_notices_is_found(together):
    ends, _ = run(together, ["m:f 1", "m:g 1", "m:h 1"], {"t2": [{"m:f 1"}], "t3": [{"m:g 1"}, {"m:h 1"}]})
    assert ends == {"m:f 1": ("killed", "t2"), "m:g 1": ("killed", "t3"), "m:h 1": ("killed", "t3")}


def test_the_others_meet_all_of_their_tests(together):
    ends, ran = run(together, ["m:f 1", "m:g 1", "m:h 1"], {"t1": [{"m:f 1"}]})
    assert ends == {"m:f 1": ("killed", "t1"), "m:g 1": ("survived", ""), "m:h 1": ("survived", "")}
    for name, tests in {"m:g 1": REACHING["m:g"], "m:h 1": REACHING["m:h"]}.items():
        assert set(tests) <= {test for test, names in ran if name in names and "m:f 1" not in names}


def test_mutants_of_one_function_are_never_in_place_together(together):
    _, ran = run(together, ["m:f 1", "m:f 2", "m:g 1", "m:f 3"], {})
    assert all(sum(name.startswith("m:f") for name in names) <= 1 for _, names in ran)


def test_what_fails_only_together_survives(together):
    ends, _ = run(together, ["m:f 1", "m:g 1"], {"t1": [{"m:f 1", "m:g 1"}]})
    assert set(ends.values()) == {("survived", "")}


def test_a_test_that_fails_without_a_mutant_kills_none(together):
    ends, _ = run(together, ["m:f 1", "m:g 1"], {"t2": [{"m:g 1"}]}, broken={"t1"})
    assert ends == {"m:f 1": ("survived", ""), "m:g 1": ("killed", "t2")}


def test_those_that_nobody_explained_come_first(together, monkeypatch):
    explained = together.Explained({"m:f 1": "the same to Python"})
    monkeypatch.setattr(together.Explained, "read", lambda: explained)
    groups = together.grouped([together.Mutant(name, "m:f", "1", "digest") for name in ("m:f 1", "m:f 2")])
    assert [list(group.living) for group in groups] == [["m:f 2"], ["m:f 1"]]


def test_with_some_of_the_tests_nothing_survives_for_good(together):
    ends, _ = run(together, ["m:f 1", "m:g 1"], {"t1": [{"m:g 1"}]}, whole=False)
    assert ends == {"m:f 1": ("open", ""), "m:g 1": ("killed", "t1")}
