"""How mutants ended, one line of JSON each; the last line of a mutant counts."""

import json
import signal
from typing import Any, NamedTuple

from made import WORK

RESULTS = WORK / "results.jsonl"


class Result(NamedTuple):
    """How a mutant ended."""

    name: str
    source: str
    end: str
    """`killed`, `timeout`, `survived`, `no test`, or `open` if tests are left."""
    test: str
    """The one that noticed it."""
    done: int
    """How many tests were run."""
    of: int
    """How many reach it."""
    seconds: float


def write(out: Any, result: Result) -> None:
    """Append a result."""
    out.write(json.dumps(result) + "\n")
    out.flush()


def results() -> dict[str, Result]:
    """Return the last result of each mutant."""
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text("utf-8").splitlines()
    return {each.name: each for each in (Result(*json.loads(line)) for line in lines)}


def ending(code: int, *, whole: bool) -> str:
    """Return how a mutant ended whose tests ended with this exit status; `whole`: they were all that reach it."""
    if code == 0:
        return "survived" if whole else "open"
    return "timeout" if code in {-signal.SIGALRM, -signal.SIGPROF} else "killed"
