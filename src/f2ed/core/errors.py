"""All errors of f2ed.

::

    F2edError
    ├── ConfigError        what you asked for cannot work: change a setting, a file or an argument
    │   └── MissingExtra   an optional dependency is not installed
    └── PeerError          the other party broke the protocol, or sent what cannot be read
        └── Refusal        a client will not go on, because going on would cost its privacy

and one warning, `LeakWarning`: the settings work, and give single clients away.

Every message says what was found, what was wanted and what to do.
"""

__all__ = ["ConfigError", "F2edError", "LeakWarning", "MissingExtra", "PeerError", "Refusal"]


class F2edError(Exception):
    """The root of the tree."""


class ConfigError(F2edError):
    """What was asked for cannot work."""


class MissingExtra(ConfigError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part of f2ed; install it with: pip install 'f2ed[{extra}]'")


class PeerError(F2edError):
    """The other party broke the protocol, or sent what cannot be read."""


class Refusal(PeerError):
    """A client stops, because going on would cost its privacy."""


class LeakWarning(UserWarning):
    """The planned rounds would give single clients away."""
