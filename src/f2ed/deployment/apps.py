"""The apps that a roster approves, by the SHA-256 of their bundle.

A Flower app is code that every node runs on its own data, so the authority signs which ones. What it signs is the hash
of the whole bundle (a FAB): any other byte is another app.
"""

import hashlib
import io
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.roster import App, Roster, TrainingRules
from f2ed.deployment.rule_text import exact_rules

__all__ = ["Bundle", "app_rules", "change_apps", "check_app", "describe", "is_unpinned"]

_PROJECT = "pyproject.toml"
_MOST = 1 << 20
"""The largest project file that is read: a bundle is small, but what it unpacks to need not be."""


class Bundle(NamedTuple):
    """What the authority reads in a bundle before it signs."""

    app: App
    run_config: dict[str, Any]
    """The defaults of the run configuration; the names of nested tables are joined by dots, as Flower does."""


def describe(content: bytes) -> Bundle:
    """Return what is to be signed for a bundle, with the defaults of its run configuration."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(_PROJECT) as file:
            project = tomllib.loads(file.read(_MOST).decode())
        flower = project["tool"]["flwr"]["app"]
        name = f"{flower['publisher']}/{project['project']['name']} {project['project']['version']}"
    except (zipfile.BadZipFile, KeyError, TypeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"this is not a Flower app bundle ({error}); build one with: flwr build") from None
    return Bundle(App(hashlib.sha256(content).digest(), name), dict(_flat(flower.get("config", {}))))


def change_apps(apps: Sequence[App], add: Sequence[App], remove: Sequence[str]) -> tuple[App, ...]:
    """Return a list of apps after some were added, and some removed by name or by the first digits of their hash."""
    left = {app.sha256: app for app in apps}
    for wanted in remove:
        found = [app for app in left.values() if wanted in (app.name, *_prefixes(app))]
        if not found:
            known = ", ".join(f"{app.name} ({app.sha256.hex()[:16]})" for app in apps) or "none"
            raise ConfigError(f"no approved app is {wanted}; there are: {known}")
        for app in found:
            del left[app.sha256]
    left |= {app.sha256: app for app in add}
    return tuple(sorted(left.values(), key=lambda app: (app.name, app.sha256)))


def app_rules(before: TrainingRules, configs: Sequence[Mapping[str, Any]]) -> TrainingRules:
    """Return rules under which these run configurations, and no other values, are allowed.

    A rule that was signed before stays if it allows what an app sets. Rules for what no app sets are dropped: a run of
    it could not comply. Raise `ValueError` for apps with different names of settings, which no set of rules fits.
    """
    if not configs:
        return before
    rules = {rule.name: rule for config in configs for rule in exact_rules(config)}
    for config in configs:
        names = {rule.name for rule in exact_rules(config)}
        if missing := rules.keys() - names:
            raise ValueError(
                f"one app has the run setting {min(missing)!r} and another has not; sign for apps with the same run "
                "settings, or one at a time"
            )
    known = {rule.name: rule for rule in before.run_config}
    kept = []
    for name, rule in rules.items():
        values = [config[name] for config in configs]
        old = known.get(name)
        if old is not None and all(old.allows(value) for value in values):
            kept.append(old)
        else:
            distinct = tuple(dict.fromkeys(values))
            kept.append(msgspec.structs.replace(rule, values=distinct))
    return msgspec.structs.replace(before, run_config=tuple(sorted(kept, key=lambda rule: rule.name)))


def check_app(roster: Roster, sha256: bytes) -> None:
    """Refuse an app that the authority did not sign, unless the roster accepts any app by the name of that risk."""
    if any(app.sha256 == sha256 for app in roster.apps):
        return
    if is_unpinned(roster):
        return
    approved = ", ".join(app.name for app in roster.apps) or "no app"
    raise Refusal(
        f"the app with SHA-256 {sha256.hex()} is not approved: serial {roster.serial} of the roster {roster.name!r} "
        f"approves {approved}; the authority approves more with f2ed roster sign --app"
    )


def is_unpinned(roster: Roster) -> bool:
    """Return whether any app may run: none is approved, and that risk is accepted by its name."""
    return not roster.apps and "unpinned-app" in roster.accepted


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _prefixes(app: App) -> tuple[str, ...]:
    digits = app.sha256.hex()
    return tuple(digits[:count] for count in range(8, len(digits) + 1))
