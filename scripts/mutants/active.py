"""Puts mutants in place: each function that has some calls the one that is active, and notes that it was reached."""

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from made import SOURCE


class Active:
    """Which mutants are in place, and what was reached."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        """By function; the others stay as they are."""
        self.reached: set[str] = set()

    def wrap(self, versions: dict[str, Any], is_classmethod: bool = False) -> Callable[[Any], Any]:
        """Return a decorator in the place of mutmut's own, for each function that has mutants."""

        def decorate(function: Any) -> Any:
            name = f"{function.__module__}:{function.__qualname__}"

            @functools.wraps(function)
            def chosen(*args: Any, **kwargs: Any) -> Any:
                self.reached.add(name)
                if name not in self.versions:
                    return function(*args, **kwargs)
                mutant = versions[self.versions[name]]
                if is_classmethod:
                    return getattr(args[0], mutant.__name__)(*args[1:], **kwargs)
                return mutant(*args, **kwargs)

            return chosen

        return decorate


ACTIVE = Active()


def install() -> None:
    """Let the copy of the source find our decorator, and Python find the copy."""
    for name in ("mutmut", "mutmut.mutation", "mutmut.mutation.trampoline"):
        sys.modules[name] = types.ModuleType(name)
    module: Any = sys.modules["mutmut.mutation.trampoline"]
    module.wrap_in_trampoline, module.MutantDict = ACTIVE.wrap, dict
    sys.path[:0] = [str(SOURCE)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))


def forget() -> None:
    """Empty the caches of the source, so that a test does not live on what another left."""
    for name, module in list(sys.modules.items()):
        if name.startswith("f2ed."):
            for each in list(vars(module).values()):
                if isinstance(each, functools._lru_cache_wrapper):  # noqa: SLF001
                    each.cache_clear()
