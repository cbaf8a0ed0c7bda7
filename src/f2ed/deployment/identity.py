"""A node's identity: its private key and the roster it trusts, from its own settings and never from the server.

    flower-supernode … --node-config 'f2ed-key="a.key" f2ed-roster="roster.json" f2ed-authority="authority.pub"'

With `f2ed-noise-multiplier=1.0` the node refuses rounds whose sums carry less noise for differential privacy than that
multiple of the clip norm; with `f2ed-dp-epsilon=8.0` it stops sending before its updates together cost more than that.

Simulated nodes have no settings. There, and only there, `f2ed-roster = "test:N"` in the run's settings (or in the
environment, as F2ED_ROSTER) stands for a roster of N clients whose private keys anybody can compute.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from logging import getLogger
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.exposure import Exposure
from f2ed.deployment.key_memory import key_folder
from f2ed.deployment.keyfiles import read_chain, read_private, read_public
from f2ed.deployment.layout_pin import LayoutPin
from f2ed.deployment.pin import Pin
from f2ed.deployment.roster import (
    Entry,
    Roster,
    check_head,
    check_signature,
    derived_terms,
    read_roster,
    read_serials,
    signed,
)
from f2ed.deployment.round_mark import RoundMark
from f2ed.deployment.state_store import FileStore, Store
from f2ed.deployment.survivor_sets import SurvivorSets
from f2ed.deployment.training_rules import ANYTHING
from f2ed.deployment.transparency import LogFile
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.dp import Budget
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import unsigned
from f2ed.protocol.secagg import Member, ModeChoice, public_key
from f2ed.protocol.sharding import ClientId

__all__ = [
    "Identity",
    "deployed",
    "followed_roster",
    "identify",
    "is_test",
    "key_store",
    "roster_for_tests",
    "roster_from",
]

_log = getLogger("f2ed.deployment")

_TEST = "test:"
_TEST_AUTHORITY = digest(b"f2ed test authority, known to all")
_SETTINGS = ("f2ed-key", "f2ed-roster", "f2ed-authority")


class Identity(NamedTuple):
    """What a node knows by itself, without the server."""

    id: ClientId
    signing_key: bytes
    roster: Roster
    store: Store
    test: bool = False
    """Whether the keys are public."""
    noise: float = 0.0
    """Minimum noise in a sum with its update, as a multiple of the clip norm."""
    budget: Budget | None = None
    """The privacy budget for all its updates together."""
    rounds: RoundMark | None = None
    """The last round that it answered, in all runs; simulated nodes begin each run at 0."""
    survivors: SurvivorSets | None = None
    """The sets of survivors that it confirmed, in all runs; simulated nodes count none."""
    layouts: LayoutPin | None = None
    """The layouts that it trained under this roster; simulated nodes pin none."""
    log: LogFile | None = None
    """Its transparency log; simulated nodes keep none."""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Identity(id={self.id}, roster={self.roster.name!r}, signing_key=<secret>)"

    def member(self, run: int) -> Member:
        """Return this client as the protocol knows it in a run."""
        return Member(
            id=self.id,
            signing_key=self.signing_key,
            roster=self.roster.keys,
            job=self.roster.job(run),
            terms=None if self.test else partial(derived_terms, self.roster, run, self.id),
            shard=partial(self.roster.shard_of, self.id),
            noise=self.noise,
            survivors=None if self.survivors is None else self.survivors.confirm,
            clear=self.test,
        )


def identify(
    node_config: Mapping[str, Any],
    run_config: Mapping[str, Any],
    *,
    simulated: Callable[[], bool],
    simulation_store: Store,
) -> Identity:
    """Read a node's settings, or refuse to take part without them.

    Only in a process that is `simulated` may the run's settings name a test roster; its state is kept in
    `simulation_store`.
    """
    given = {name: node_config[name] for name in _SETTINGS if name in node_config}
    if len(given) == len(_SETTINGS):
        return deployed(node_config)
    wanted = str(run_config.get("f2ed-roster") or os.environ.get("F2ED_ROSTER", ""))
    if not given and wanted.startswith(_TEST) and simulated():
        _log.warning("f2ed: TEST ROSTER. The keys of all clients are public: nothing is secret. Simulation only.")
        return _simulated(node_config, wanted, simulation_store)
    missing = ", ".join(name for name in _SETTINGS if name not in given)
    raise Refusal(
        f"this node was started without {missing} in its --node-config, so it has no key or no authority to trust; "
        "see f2ed roster --help"
    )


@lru_cache(maxsize=4)
def roster_for_tests(
    count: int, *, shards: int, min_crowd: int = 1, mode: ModeChoice = "auto", shards_per_round: int = 0
) -> Roster:
    """Return a roster for simulations, whose private keys anybody can compute."""
    authority = _TEST_AUTHORITY
    draft = Roster(
        name="test",
        authority=public_key(authority),
        clients=tuple(Entry(client, f"test-{client}", public_key(_test_key(client))) for client in range(count)),
        training=ANYTHING,
        buffers=Buffers(),
        accepted=("test",),
    )
    return signed(
        draft,
        authority,
        shards=shards,
        min_crowd=min_crowd,
        mode=mode,
        shards_per_round=shards_per_round,
        seed=digest(b"f2ed test deal"),
    )


def is_test(roster: Roster) -> bool:
    """Return whether anybody could have signed this roster."""
    return roster.authority == public_key(_TEST_AUTHORITY)


def roster_from(where: str | Path) -> Roster:
    """Return the roster that a setting names: a file, or `test:N` and `test:N/P` for N test clients in P shards.

    `test:N/P/MODE` also names the mode, and `test:N/P/MODE/K` draws K of the shards for each round.
    """
    if not str(where):
        raise ConfigError("no roster; give the path of a signed one, or test:N in a simulation with N nodes")
    if not str(where).startswith(_TEST):
        roster = read_roster(Path(where))
        check_signature(roster, roster.authority)
        return roster
    stated = str(where).removeprefix(_TEST).split("/", 3)
    count, shards, mode, per_round = stated + [""] * (4 - len(stated))
    try:
        numbers = int(count), int(shards) if shards else max(1, int(count) // 4), int(per_round or 0)
        chosen = msgspec.convert(mode or "auto", ModeChoice)
    except ValueError:
        raise ConfigError(
            f"{where!r} names no test roster; write test:12, test:12/3 for 12 clients in 3 shards, or "
            "test:12/3/dropout-tolerant"
        ) from None
    crowd = min(3, numbers[0] // numbers[1])
    return roster_for_tests(numbers[0], shards=numbers[1], min_crowd=crowd, mode=chosen, shards_per_round=numbers[2])


def key_store(roster: Roster, state: Path, keys: object = None) -> FileStore:
    """Return where a node keeps the keys of a federation: in the folder named by `f2ed-keys`, or else in memory.

    Those of a roster that has expired are erased.
    """
    folder = key_folder(state) if keys is None else Path(str(keys))
    store = FileStore(folder, roster.lineage, roster.serial)
    if roster.expires and _today() > roster.expires:
        store.forget()
    return store


def state_folder(settings: Mapping[str, Any]) -> Path:
    """Return where a node keeps what outlives a run: `f2ed-state`, or beside its key."""
    return Path(str(settings.get("f2ed-state", Path(str(settings["f2ed-key"])).with_suffix(".state"))))


def followed_roster(settings: Mapping[str, Any]) -> Roster:
    """Return the roster that a node with these settings follows today, or refuse the one that it was given.

    `f2ed-roster` is a file, or a folder with all serials. Accepted risks are logged, once in each process.
    """
    folder = state_folder(settings)
    authority = Path(str(settings["f2ed-authority"]))
    shown = read_serials(Path(str(settings["f2ed-roster"])), read_public(authority))
    head = read_chain(authority)
    for roster in shown:
        check_head(roster, head)
    found = Pin(folder / f"{shown[0].lineage}.pin").follow(shown, day=_today())
    _announce(found.name, found.serial, found.accepted)
    return found


@lru_cache(maxsize=16)
def _announce(name: str, serial: int, accepted: tuple[str, ...]) -> None:
    for risk in accepted:
        _log.warning("f2ed: ACCEPTED RISK %s, by the roster %r, serial %s", risk, name, serial)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def deployed(settings: Mapping[str, Any]) -> Identity:
    """Return the identity of a node with a key, by its settings."""
    key_path = Path(str(settings["f2ed-key"]))
    key = read_private(key_path, str(settings.get("f2ed-passphrase", "")))
    folder = state_folder(settings)
    roster = followed_roster(settings)
    public = public_key(key)
    mine = next((entry for entry in roster.clients if entry.key == public), None)
    if mine is None:
        raise Refusal(
            f"this node's key is not on the roster {roster.name!r} (serial {roster.serial}); ask the authority to "
            "add it"
        )
    Exposure(folder).follow(roster, public)
    noise = _number(settings, "f2ed-noise-multiplier", 0.0)
    rounds = RoundMark(folder / f"{roster.lineage}.rounds", roster.first_round, roster.skip)
    layouts = LayoutPin(folder / f"{roster.lineage}.layout", roster.digest)
    budget = _budget(settings, key_path)
    return Identity(
        mine.id,
        key,
        roster,
        key_store(roster, folder, settings.get("f2ed-keys")),
        noise=noise,
        budget=budget,
        rounds=rounds,
        survivors=SurvivorSets(folder / f"{roster.lineage}.survivors", least=roster.grouping.hidden + roster.colluders),
        layouts=layouts,
        log=LogFile(folder / f"{roster.lineage}.log", mine.id, key, roster.lineage, roster.digest, roster.serial),
    )


def _budget(settings: Mapping[str, Any], key: Path) -> Budget | None:
    """Return the node's budget; by default its ledger is beside its key."""
    if "f2ed-dp-epsilon" not in settings:
        if idle := [name for name in ("f2ed-delta", "f2ed-ledger") if name in settings]:
            raise ConfigError(
                f"{idle[0]} is in the --node-config without f2ed-dp-epsilon; set the budget, or remove both"
            )
        return None
    ledger = Path(str(settings.get("f2ed-ledger", key.with_suffix(".spent.json"))))
    return Budget(ledger, _number(settings, "f2ed-dp-epsilon", 0.0), _number(settings, "f2ed-delta", 1e-5, below=1.0))


def _number(settings: Mapping[str, Any], name: str, default: float, *, below: float = inf) -> float:
    given = settings.get(name, default)
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number < below:
        raise ConfigError(
            f"{name} is {given!r} in the --node-config; it must be a number of 0 to {below:g}, or be left out"
        )
    return number


def _simulated(node_config: Mapping[str, Any], wanted: str, store: Store) -> Identity:
    roster = roster_from(wanted)
    client = int(node_config.get("partition-id", -1))
    if client not in roster.keys:
        raise Refusal(f"partition {client} is not among the {len(roster.clients)} clients of {wanted!r}")
    return Identity(client, _test_key(client), roster, store, test=True)


def _test_key(client: ClientId) -> bytes:
    return digest(b"f2ed test key, known to all", unsigned(client))
