"""Keeps a process that holds keys from being read: no core dumps, and no debugger of the same user."""

import ctypes
import resource
import sys
from logging import getLogger

__all__ = ["forbid_dumps"]

_log = getLogger("f2ed.deployment")

_PR_SET_DUMPABLE = 4


def forbid_dumps() -> bool:
    """Let no process of another user, and no debugger, read this one's memory from now on; return whether it worked.

    Root still can. Where the system has no such call, the size of core files is limited to nothing all the same.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    done = sys.platform == "linux" and bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    if not done:
        _log.warning("f2ed: this system cannot keep a debugger of the same user from reading this process's keys")
    return done
