"""The tests that the security documents name as evidence, and whether a run of the suite bore them out."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "threat_model.md", ROOT / "SECURITY.md")
_ID = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")
_ELSEWHERE = "tests/real_deployment/"
"""These need real processes: `make test-deployment` runs them."""


def named_tests(*texts):
    """Return the ids of all tests that the texts name, in their order."""
    return list(dict.fromkeys("::".join(found) for text in texts for found in _ID.findall(text)))


def named_in_pages():
    """Return the ids of all tests that the security documents name."""
    return named_tests(*(page.read_text(encoding="utf-8") for page in PAGES if page.exists()))


class Outcomes:
    """What became of every test of a run; the parameters of a test count as one."""

    def __init__(self):
        self._found = defaultdict(set)

    def add(self, node_id, outcome):
        """Record the outcome of one phase of a test, `passed` only for the test itself."""
        self._found[node_id.partition("[")[0]].add(outcome)

    def unproven(self, names, nightly=()):
        """Return which of these tests did not run, or did not pass, among those that this run should have run."""
        wanted = [name for name in names if not name.startswith(_ELSEWHERE) and name not in nightly]
        return [name for name in wanted if self._found[name] != {"passed"}]


def is_whole(config):
    """Return whether this is a run of the whole suite, as `make test` starts it."""
    option = config.option
    names = ("keyword", "deselect", "ignore", "ignore_glob", "lf", "collectonly")  # lf is a plugin's, and may be absent
    narrowed = (getattr(option, name, None) for name in names)
    by_default = config.args_source is type(config).ArgsSource.TESTPATHS
    return by_default and option.markexpr == "not nightly" and not any(narrowed)
