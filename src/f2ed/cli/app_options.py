"""The options of `f2ed roster sign` for the apps that nodes may run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.cli.app_hash import read_app
from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.apps import app_rules, change_apps
from f2ed.deployment.roster import Roster, check_signature, revised

__all__ = ["AppOptions", "app_lines", "check_unchanged"]


@Parameter(name="*")
@dataclass(frozen=True)
class AppOptions:
    """What changes in the list of approved apps."""

    app: Annotated[
        list[Path] | None,
        Parameter(
            negative="",
            help="Approve an app, by its folder or its bundle, with its own run settings and no others; repeatable. "
            "Without any app: --accept unpinned-app.",
        ),
    ] = None
    remove_app: Annotated[
        list[str] | None, Parameter(negative="", help="Revoke an app, by its name or the start of its SHA-256.")
    ] = None

    def applied(self, draft: Roster, accepted: Iterable[str]) -> Roster:
        """Return the draft with the apps to be signed; refuse to sign for any app without the name of that risk."""
        found = [read_app(path) for path in self.app or ()]
        apps = change_apps(draft.apps, [each.app for each in found], self.remove_app or ())
        if not apps and "unpinned-app" not in accepted:
            raise ConfigError(
                "no app is approved, so the server could run any code on every node; approve the app with --app "
                "FOLDER, or take that risk by its name with --accept unpinned-app"
            )
        if not (self.app or self.remove_app):
            return draft
        check_unchanged(draft)
        try:
            training = app_rules(draft.training, [each.run_config for each in found])
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return revised(draft, apps=apps, training=training)


def app_lines(before: Roster, after: Roster) -> Iterator[str]:
    """Yield a line for each app that a signing approves or revokes."""
    old, new = ({app.sha256: app.name for app in roster.apps} for roster in (before, after))
    for digest in new.keys() - old.keys():
        yield f"  + app {new[digest]}  {digest.hex()}"
    for digest in old.keys() - new.keys():
        yield f"  - app {old[digest]}  {digest.hex()}"


def check_unchanged(draft: Roster) -> None:
    """Refuse to follow a roster that was changed after it was signed."""
    if draft.signature:
        try:
            check_signature(draft, draft.authority)
        except PeerError as error:
            raise ConfigError(str(error)) from None
