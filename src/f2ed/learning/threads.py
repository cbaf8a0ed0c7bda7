"""Threads with one torch thread each: torch's own collapse when many small operations meet a busy machine."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

__all__ = ["cores", "in_threads"]


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(tasks: Iterable[Callable[[], None]], workers: int) -> None:
    """Run the tasks in `workers` threads; the first failure is raised, and tasks not begun by then are dropped."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)
        # What a thread sets is also the default of threads to come.
        torch.set_num_threads(before)
