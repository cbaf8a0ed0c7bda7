"""The commands and the Python example of the README, and the shortest run that still tests each command."""

import re
from pathlib import Path

__all__ = ["commands", "example", "shortened"]

SHORTER = {
    "run": ["--rounds", "1", "--only", "filter-l2"],
    "audit": ["--quick", "--iterations", "0"],
    "reproduce": ["--help"],
    "up": ["--nodes", "4", "--shards", "1", "--config", "num-rounds=1"],
}
"""Options added to commands that take minutes as the README gives them."""


def commands(readme: Path) -> list[list[str]]:
    """Return every `$ f2ed …` line of the README's console blocks, split into words."""
    blocks = re.findall(r"^```console\n(.*?)^```", readme.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line.split("#")[0] for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ").split() for line in lines if line.startswith("$ f2ed ")]


def example(readme: Path) -> str:
    """Return the README's Python example."""
    found = re.search(r"^```python\n(.*?)^```", readme.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit("the README has no Python example; release_check runs one")
    return found[1]


def shortened(command: list[str]) -> list[str]:
    """Return the command with the options that make it short."""
    return [*command, *SHORTER.get(command[1], [])]
