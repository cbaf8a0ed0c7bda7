"""Processes that hold keys: neither a core file nor a debugger of the same user gets their memory."""

import subprocess
import sys

import pytest

LOOK = """
import ctypes, resource
from f2ed.deployment.dumps import forbid_dumps
prctl = ctypes.CDLL(None).prctl
print(prctl(3, 0, 0, 0, 0), forbid_dumps(), prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
def test_a_process_is_not_dumped_afterwards():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True 0 (0, 0)\n"
