"""Read records for a command; problems with them are printed and do not stop it. Options out of range do."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from f2ed.core.errors import ConfigError
from f2ed.records.intake import Problem, RecordedRun
from f2ed.records.reader import read_runs

__all__ = ["invalid_option", "print_problems", "read_some"]


def invalid_option(wrong: msgspec.ValidationError) -> ConfigError:
    """Return the error of an option whose value is out of range."""
    what, _, path = str(wrong).partition(" - at `$.")
    return ConfigError(f"--{path.strip('`').replace('_', '-')}: {what[:1].lower()}{what[1:]}" if path else what)


def read_some(paths: Sequence[Path], console: Console) -> list[RecordedRun]:
    """Read all runs, with every round; there must be one."""
    if not paths:
        raise ConfigError("no runs given; name folders or record files, such as runs/demo")
    runs, problems = read_runs(paths)
    print_problems(problems, console)
    if not runs:
        raise ConfigError("no run could be read, for the reasons above")
    return runs


def print_problems(problems: Sequence[Problem], console: Console) -> None:
    """Name each problem with its file and line."""
    for problem in problems:
        where = f"{problem.file}, line {problem.line}" if problem.line else problem.file
        console.print(f"{where}: {problem.text}", style="yellow", soft_wrap=True, markup=False)
