"""Threads with one torch thread each: torch's own collapse when many small operations meet a busy machine."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import torch

__all__ = ["cores", "run_in_threads"]

Tool = TypeVar("Tool")


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_threads(tasks: Iterable[Callable[[Tool], None]], tools: Sequence[Tool]) -> None:
    """Run the tasks in as many threads as there are tools, each with one that no other uses meanwhile.

    The first failure is raised, and tasks not begun by then are dropped.
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
        # What a thread sets is also the default of threads to come.
        torch.set_num_threads(before)
