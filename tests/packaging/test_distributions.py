"""The wheel and the sdist hold what they should and nothing else."""

import tarfile
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("sdist")), versions=["standard"])
    with tarfile.open(built) as archive:
        return [str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()]


def ours(pattern):
    return {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern) if "__pycache__" not in path.parts}


def test_the_wheel_holds_every_module_and_the_marker_of_types(wheel):
    modules = {name.removeprefix("src/") for name in ours("src/f2ed/**/*.py")}
    assert modules <= set(wheel)
    assert "f2ed/py.typed" in wheel


def test_the_wheel_holds_every_experiment_file(wheel):
    files = {f"f2ed/experiments/files/{name.removeprefix('experiments/')}" for name in ours("experiments/**/*.toml")}
    assert files
    assert files <= set(wheel)


def test_the_wheel_holds_the_templates_of_the_report_page(wheel):
    page = {name.removeprefix("src/") for suffix in ("html", "css", "js") for name in ours(f"src/f2ed/**/*.{suffix}")}
    assert page
    assert page <= set(wheel)


def test_the_wheel_holds_the_package_alone(wheel):
    assert {PurePosixPath(name).parts[0].partition("-")[0] for name in wheel} == {"f2ed"}
    assert not [name for name in wheel if "__pycache__" in name or name.endswith(".pyc")]


def test_no_file_is_in_the_wheel_twice(wheel):
    assert [name for name, times in Counter(wheel).items() if times > 1] == []


def test_the_sdist_leaves_out_the_records_and_the_tests_that_read_them(sdist):
    assert not [name for name in sdist if name.startswith(("results/", "tests/docs/", "runs/", ".venv/"))]


def test_the_sdist_can_be_built_tested_and_documented(sdist):
    wanted = {"pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt", "docs/conf.py", "docs/index.md"}
    assert wanted | ours("src/f2ed/**/*.py") | ours("examples/*.py") <= set(sdist)
    assert "tests/test_examples.py" in sdist
