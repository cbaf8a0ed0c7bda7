"""Threads with one torch thread each: torch's own threads slow down badly for small operations on a busy machine."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import torch

__all__ = ["run_in_threads"]

Tool = TypeVar("Tool")


def run_in_threads(tasks: Iterable[Callable[[Tool], None]], tools: Sequence[Tool]) -> None:
    """Run the tasks in as many threads as there are tools; each task has one tool to itself while it runs.

    The first failure is raised, and tasks not started by then are cancelled.
    """
    idle = SimpleQueue[Tool]()
    for tool in tools:
        idle.put(tool)

    def run(task: Callable[[Tool], None]) -> None:
        tool = idle.get()
        try:
            task(tool)
        finally:
            idle.put(tool)

    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(len(tools), initializer=torch.set_num_threads, initargs=(1,))
    try:
        for done in [pool.submit(run, task) for task in tasks]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)
        # What a thread sets also becomes the default of later threads.
        torch.set_num_threads(before)
