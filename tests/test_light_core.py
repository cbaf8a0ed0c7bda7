"""The light core runs with numpy, cryptography and msgspec alone."""

import subprocess
import sys
import textwrap

PROGRAM = """
    import sys

    ALLOWED = {"numpy", "cryptography", "msgspec", "cffi", "_cffi_backend", "f2ed", "typing_extensions"}

    class Nothing:
        def find_spec(self, name, path=None, target=None):
            root = name.partition(".")[0]
            if root not in ALLOWED and root not in sys.stdlib_module_names and not root.startswith("_"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=root)

    sys.meta_path.insert(0, Nothing())
    import numpy as np, f2ed
    print(f2ed.FilterL2(contamination=0.1)(np.random.default_rng(0).normal(size=(100, 1000))).weights.sum())
    print(f2ed.FilterL2(contamination=0.1)(np.random.default_rng(0).normal(size=(100, 20_000))).weights.sum())
"""


def test_it_needs_no_optional_dependency():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, check=True)
    assert [round(float(line), 12) for line in done.stdout.split()] == [1.0, 1.0]
