"""All errors of f2ed.

::

    F2edError
    ├── ConfigError        the request cannot work: change a setting, a file or an argument
    │   ├── MissingExtra   an optional dependency is not installed
    │   ├── PluginError    a plug-in returned something else than its interface says
    │   └── SettingError   a setting has a wrong type or is out of range; a ValueError too
    ├── GoneError          the process on the other side of a socket ended
    └── PeerError          the other party violated the protocol, or sent something that cannot be read
        └── Refusal        a client refuses to continue, because continuing would cost its privacy

and one warning, `LeakWarning`: the settings work, but expose single clients.

Every message states what was found, what was expected and what to do.
"""

__all__ = [
    "BusyError",
    "ConfigError",
    "F2edError",
    "GoneError",
    "LeakWarning",
    "MissingExtra",
    "OutageError",
    "PeerError",
    "PluginError",
    "Refusal",
    "SettingError",
    "first_line",
]


class F2edError(Exception):
    """The root of the tree."""


class ConfigError(F2edError):
    """The request cannot work."""


class BusyError(ConfigError):
    """Another process holds a lock."""


class MissingExtra(ConfigError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the extra {extra!r}, which is not installed; install it: pip install 'f2ed[{extra}]'"
        )


class PluginError(ConfigError):
    """A plug-in, such as a rule or an attack of your own, returned something else than its interface says."""


class SettingError(ConfigError, ValueError):
    """A setting has a wrong type or is out of range; read from a file, msgspec adds its path."""


class OutageError(F2edError):
    """Too few clients took part for too long."""


class GoneError(F2edError):
    """The process on the other side of a socket ended, or broke the rules of the conversation."""


class PeerError(F2edError):
    """The other party violated the protocol, or sent something that cannot be read."""


class Refusal(PeerError):
    """A client refuses to continue, because continuing would cost its privacy."""


class LeakWarning(UserWarning):
    """The planned rounds would expose single clients."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an error of other code says, or the error itself if it says nothing."""
    return next(iter(str(error).strip().splitlines()), repr(error))
