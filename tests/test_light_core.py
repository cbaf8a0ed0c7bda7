"""The light core runs with numpy, cryptography and msgspec alone."""

import subprocess
import sys
import textwrap

import pytest

LIGHT = """
    import sys

    ALLOWED = {"numpy", "cryptography", "msgspec", "cffi", "_cffi_backend", "f2ed", "typing_extensions"}

    class Nothing:
        def find_spec(self, name, path=None, target=None):
            root = name.partition(".")[0]
            if root not in ALLOWED and root not in sys.stdlib_module_names and not root.startswith("_"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=root)

    sys.meta_path.insert(0, Nothing())
    import numpy as np, f2ed
"""
ESTIMATE = """
    print(f2ed.FilterL2(contamination=0.1)(np.random.default_rng(0).normal(size=(100, 1000))).weights.sum())
    print(f2ed.FilterL2(contamination=0.1)(np.random.default_rng(0).normal(size=(100, 20_000))).weights.sum())
"""


SIMULATE = """
    try:
        f2ed.simulate(data="digits", clients=30, shards=10, rounds=1)
    except f2ed.MissingExtra as error:
        print(error)
"""
FLOWER = """
    try:
        f2ed.flower.F2ed
    except f2ed.MissingExtra as error:
        print(error)
"""


def printed(program):
    code = textwrap.dedent(LIGHT) + textwrap.dedent(program)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_it_needs_no_optional_dependency():
    assert [round(float(line), 12) for line in printed(ESTIMATE).split()] == [1.0, 1.0]


@pytest.mark.parametrize(("program", "extra"), [(SIMULATE, "train"), (FLOWER, "flower")])
def test_what_needs_an_extra_names_it(program, extra):
    assert f"pip install 'f2ed[{extra}]'" in printed(program)
