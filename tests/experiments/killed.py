"""Run a file, and be killed (SIGKILL) at one stage of one round: python killed.py FILE OUT STAGE ROUND."""

import os
import signal
import sys
from pathlib import Path

from f2ed.core.files import Lock
from f2ed.experiments import prepare, read, run_all, runner
from f2ed.simulation.local_updates import LocalUpdates
from f2ed.simulation.opened_rows import Sharded


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def arm(stage, fatal):
    """Put the end of the process where the stage is."""
    seen = 0

    def in_round(original, number):
        def wrapped(*given, **named):
            nonlocal seen
            seen += 1
            return die() if seen == number else original(*given, **named)

        return wrapped

    append, replace = runner.append, Lock.write

    def half_a_line(path, content):
        nonlocal seen
        seen += 1
        append(path, content[: len(content) // 2] if seen == fatal + 1 else content)
        if seen == fatal + 1:
            die()

    def before_the_checkpoint(lock, path, content, **mode):
        nonlocal seen
        seen += path.suffix == ".checkpoint"
        return die() if seen == fatal + 1 else replace(lock, path, content, **mode)

    def before_the_rename(lock, path, content, **mode):
        nonlocal seen
        seen += path.suffix == ".checkpoint"
        if seen == fatal + 1:
            path.with_name(f"{path.name}.{os.getpid()}.new").write_bytes(content[:100])
            die()
        replace(lock, path, content, **mode)

    match stage:
        case "train":
            LocalUpdates.__call__ = in_round(LocalUpdates.__call__, fatal + 1)
        case "sum":
            Sharded.__call__ = in_round(Sharded.__call__, fatal + 1)
        case "record":
            runner.append = half_a_line
        case "checkpoint":
            Lock.write = before_the_checkpoint
        case "rename":
            Lock.write = before_the_rename


if __name__ == "__main__":
    file, out, stage, fatal = sys.argv[1:]
    cells, loaded = prepare(read(Path(file)))
    arm(stage, int(fatal))
    for _ in run_all(cells, Path(out), loaded=loaded, workers=1):
        pass
