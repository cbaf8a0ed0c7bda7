"""`f2ed roster helper`, `helper-settings` and `countersign`: helpers in the signed roster."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from f2ed.cli.roster_keys import Passphrase
from f2ed.cli.roster_sign import print_lines
from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.keyfiles import read_private, read_public
from f2ed.deployment.roster import (
    HelperEntry,
    Helpers,
    Roster,
    check_signature,
    countersigned,
    read_roster,
    revised,
    write_roster,
)
from f2ed.estimators import AnyEstimator
from f2ed.protocol.helpers import Guard, Relay, Role, check_rule

__all__ = ["countersign", "helper", "helper_settings", "read_rule"]

_NONE = Helpers()


def helper(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    key: Annotated[Path, Parameter(help="The party's public key; the server's is that of its log.")],
    *,
    role: Annotated[Role, Parameter(help="What this operator runs.")],
    operator: Annotated[str, Parameter(help="Who runs it: three different operators for the three roles.")],
) -> None:
    """Name who runs the mixer, the judge or the server. The roster must be signed again afterwards.

    With helpers the robust rule runs over single clients, and one sum of many is opened. No two of server, mixer and
    judge may collude: two of them together see every update.

    Example: f2ed roster helper roster.json mixer.pub --role mixer --operator "Hospital B"
    """
    draft, public = read_roster(path, upgrade=True), read_public(key)
    before = draft.helpers or _NONE
    if role == "server":
        made = _changed(before, operator=operator)
        write_roster(path, revised(draft, helpers=made, server=public))
    else:
        others = tuple(each for each in before.parties if each.role != role)
        parties = (*others, HelperEntry(role, operator, public))
        made = _changed(before, parties=tuple(sorted(parties, key=lambda each: each.role)))
        write_roster(path, revised(draft, helpers=made))
    named = [each.role for each in made.parties] + ["server"] * bool(made.operator)
    missing = [each for each in ("server", "mixer", "judge") if each not in named]
    following = f"still to name: {', '.join(missing)}" if missing else "now sign it: f2ed roster sign"
    print_lines(f"{operator} runs the {role} of {path}; {following}")


def helper_settings(
    path: Annotated[Path, Parameter(help="The roster's file.")],
    *,
    rule: Annotated[
        str | None, Parameter(help="What the judge applies: a name, or a TOML table as in an experiment.")
    ] = None,
    guard: Annotated[Guard | None, Parameter(help="Sums of whole groups, or nested sets.")] = None,
    size: Annotated[int | None, Parameter(help="Of a group, or by how many nested sets shrink; at first 4.")] = None,
    epoch: Annotated[int | None, Parameter(help="Rounds in which a strike counts; at first 10.")] = None,
    crowd: Annotated[int | None, Parameter(help="Smallest opened sum; at first a quarter of the clients.")] = None,
    colluders: Annotated[int | None, Parameter(help="Clients that may collude with a party; at first 0.")] = None,
    sketch: Annotated[int | None, Parameter(help="Columns of the sketch; at first 16 a client, at least 4096.")] = None,
    relay: Annotated[Relay | None, Parameter(help="Check a few masked rows, or all (full).")] = None,
    spot: Annotated[int | None, Parameter(help="How many rows the mixer checks; at first 8.")] = None,
) -> None:
    """Set how updates are hidden with helpers. What is left out stays; the roster must be signed again afterwards.

    Example: f2ed roster helper-settings roster.json --crowd 60 --rule '{kind = "filter-l2", contamination = 0.1}'
    """
    draft = read_roster(path, upgrade=True)
    before = draft.helpers or _NONE
    given: dict[str, object] = {"guard": guard, "size": size, "epoch": epoch, "crowd": crowd, "colluders": colluders}
    given |= {"sketch": sketch, "relay": relay, "spot": spot}
    settings = _changed(before.settings, **{name: to for name, to in given.items() if to is not None})
    made = _changed(before, settings=settings, rule=before.rule if rule is None else read_rule(rule))
    write_roster(path, revised(draft, helpers=made))
    print_lines(f"The helpers of {path} follow {msgspec.json.encode(made.settings).decode()}; now sign it")


def countersign(
    path: Annotated[Path, Parameter(help="The roster's file, signed by the authority.")],
    *,
    key: Annotated[Path, Parameter(help="The helper's private key.")],
    authority: Annotated[Path, Parameter(help="The authority's public key, obtained from it and not from the server.")],
    passphrase: Passphrase = "",
) -> None:
    """Agree, as a helper, to serve under a signed roster: nodes follow it once both helpers have.

    The signature covers the whole roster, the role and the operator. The digest of the roster stays the same.

    Example: f2ed roster countersign roster.json --key mixer.key --authority authority.pub
    """
    found = read_roster(path)
    try:
        check_signature(found, read_public(authority))
        made = countersigned(found, read_private(key, passphrase))
    except PeerError as error:
        raise ConfigError(str(error)) from None
    write_roster(path, made)
    print_lines(*_countersigned_lines(path, made))


def _countersigned_lines(path: Path, made: Roster) -> tuple[str, ...]:
    agreed = {each.role for each in made.countersignatures or ()}
    lacking = [role for role in ("mixer", "judge") if role not in agreed]
    if lacking:
        return (f"Countersigned {path}; the {lacking[0]} has not done so yet.",)
    return (f"Countersigned {path} by both helpers. Give this file to every node, helper and the server.",)


def _changed(before: Any, **changes: Any) -> Any:
    """Return settings with changes, checked as if they were read from a file."""
    try:
        return msgspec.convert(
            msgspec.to_builtins(before, builtin_types=(bytes,))
            | {name: msgspec.to_builtins(to, builtin_types=(bytes,)) for name, to in changes.items()},
            type(before),
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None


def read_rule(text: str) -> Any:
    """Read a rule, and refuse one that does not work on secret rows."""
    try:
        given = tomllib.loads(f"rule = {text}")["rule"] if text.lstrip().startswith("{") else {"kind": text}
        found = msgspec.convert(given, AnyEstimator)
    except ValueError as error:
        raise ConfigError(f"--rule {text}: {error}; f2ed list estimators shows all rules") from None
    check_rule(found)
    return found
