"""What a run may take, and what it gives to its forks and gets back."""

from pathlib import Path
from typing import Any, NamedTuple

from made import Mutant


class Limits(NamedTuple):
    """What a run may take."""

    children: int
    seconds: float
    budget: float
    """Seconds of tests in the first pass over all mutants."""
    tests: list[str]
    """Only these; empty: all of the scope."""
    record: bool
    """Whether to find out again what each test reaches."""
    again: bool
    """Whether to run those again that lived."""


class Job(NamedTuple):
    """One fork at work."""

    mutants: tuple[Mutant, ...]
    tests: list[str]
    about: Any
    """What whoever started it wants to know again when it ends."""
    began: float
    folder: Path
    output: int


class Ended(NamedTuple):
    """How a fork ended."""

    job: Job
    code: int
    said: dict[str, Any]
    passed: int
    """Tests that passed before it ended."""
