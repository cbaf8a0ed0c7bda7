"""The experiment files that come with the package, found without importing what runs them."""

from pathlib import Path

__all__ = ["shipped"]

_FOLDERS = (Path(__file__).parents[1] / "experiments" / "files", Path(__file__).parents[3] / "experiments")
"""In an installed package, and in the checkout that the package is run from."""


def shipped() -> dict[str, Path]:
    """Return the files by name."""
    folder = next((each for each in _FOLDERS if each.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.toml"))}
