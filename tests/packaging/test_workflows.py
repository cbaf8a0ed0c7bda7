"""The forge's files can be read, call targets that exist, and pin what they use."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def steps(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_make_targets_that_exist(path):
    called = [re.match(r"make ([a-z-]+)", step["run"]) for step in steps(path) if "run" in step]
    named = {match[1] for match in called if match}
    assert named
    assert named <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_commit(path):
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", name)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_begins_without_rights(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


def test_only_the_publishing_jobs_may_ask_for_an_identity():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build"
    assert jobs["build"]["permissions"]["attestations"] == "write"


def test_ci_runs_every_python_that_is_supported():
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    versions = job["strategy"]["matrix"]["python-version"]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert f">={versions[0]}" == oldest
    assert versions == ["3.11", "3.12", "3.13"]


def test_the_hooks_call_tools_of_the_development_group():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    tools = {hook["entry"].split()[0] for hook in hooks}
    assert tools == {".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/lint-imports"}


def test_dependabot_watches_actions_and_packages():
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip"}


def test_local_ci_calls_every_check():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    called = re.findall(r"^make ([a-z-]+)", script, re.MULTILINE)
    assert set(called) == {"style", "types", "layers", "test-browser", "test-deployment", "test"}
    assert set(called) <= TARGETS
