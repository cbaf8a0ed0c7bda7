"""Import modules of other projects from checkouts of theirs, unchanged and without their dependencies.

The folder that `F2ED_RIVALS` names holds one checkout per project. What a module imports from its own project comes
from that checkout; packages for data, models or logging that no aggregation function calls are replaced by empty ones.
"""

import hashlib
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from f2ed.core.errors import ConfigError

__all__ = ["FOLDER", "imported_from", "source_of"]

FOLDER = "F2ED_RIVALS"


def source_of(path: str) -> Path:
    """Return a file or folder of a checkout, such as `AlignIns/src/aggregation.py`."""
    folder = os.environ.get(FOLDER)
    if not folder:
        raise ConfigError(f"{FOLDER} is not set; set it to the folder with the checkouts (benchmarks/rivals/README.md)")
    if not (found := Path(folder) / path).exists():
        raise ConfigError(f"{found} does not exist; check the project out there (benchmarks/rivals/README.md)")
    return found


@cache
def imported_from(root: str, module: str, *, unused: tuple[str, ...] = (), sha256: str = "") -> ModuleType:
    """Import a module of the project whose import root is this folder; `sha256` begins the hash of its source.

    Two projects may have modules of the same name, so nothing stays in `sys.modules`.
    """
    folder = source_of(root)
    file = source_of(f"{root}/{module.replace('.', '/')}.py")
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if not found.startswith(sha256):
        raise ConfigError(
            f"{file} has SHA-256 {found[:16]}…; the records are of {sha256}…: check out the commit in "
            "benchmarks/rivals/README.md, or change the hash here and run everything again"
        )
    own = {each.stem if each.suffix == ".py" else each.name for each in folder.iterdir()}
    with _apart(own | set(unused)), _empty(unused):
        sys.path.insert(0, str(folder))
        try:
            return importlib.import_module(module)
        except ImportError as missing:
            raise ConfigError(f"{file} cannot be imported: {missing}; install what it needs") from missing
        finally:
            sys.path.remove(str(folder))


@contextmanager
def _apart(names: set[str]) -> Iterator[None]:
    """Forget modules of these names before and after, and restore those there were."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
    for name in before:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(before)


@contextmanager
def _empty(names: tuple[str, ...]) -> Iterator[None]:
    finder = _Empty(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find modules in which every name is a placeholder."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> Any:
        if fullname.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, _module: ModuleType) -> None:
        pass


class _Everything(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class _Placeholder(metaclass=_Everything):
    """Stands for whatever a module reads, calls, decorates with or derives from while it is imported."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        pass

    def __call__(self, *_given: Any, **_named: Any) -> "_Placeholder":
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Placeholder


class _EmptyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Placeholder
