"""What must hold after a run under faults, from what the run left: records, models, logs and the signed rosters."""

import io
import json
import re
from contextlib import suppress
from itertools import pairwise

import numpy as np

from f2ed.core.errors import PeerError
from f2ed.deployment.roster import read_roster
from f2ed.deployment.transparency.lines import RoundClosed, read_line
from f2ed.records import read
from tests.real_deployment.federation import STEP, moved, start

_AWAY = r"stopped answering|not connected|late: no reply|silent since"
_FULL = r"cannot be (written|created): No space left on device"
NAMED_BY_THE_NODE = {
    "executor-killed": r"the executor of apps has ended; this node stops",
    "app-killed": r"the process of the app was killed by signal 9",
    "clock-ahead": r"clock: this machine is \d+ s ahead|the clock of this node says|the certificate expired",
    "clock-behind": r"clock: this machine is \d+ s behind|the clock of this node says|not valid (yet|before)",
    "disk-full": _FULL,
}
"""What a node's own log says."""
_OF_THE_RUN = {
    "superlink-killed": r"Connection to the SuperLink is unavailable",
    "superexec-killed": r".*stay pending and never begin.*",
    "serverapp-killed": r"its ServerApp was killed, or the SuperLink restarted",
    "server-disk-full": _FULL,
    "database-full": r"disk is full|No space left on device",
    "server-clock-ahead": r"a wrong clock or a firewall keeps all of them out",
    "rotation": r"roster '\w+', serial \d+",
    "rotation-unannounced": r"holds another roster than this server|different serials",
}
"""What those say who lead the run."""


def named(stage, done):
    """Return for each fault the words in which a log names it, or None."""
    return [(fault, words(stage, fault, at)) for fault, at in done]


def words(stage, fault, at):
    """Return the words in which a log names a fault that came about at a time, or None.

    Of the run's log only lines since then count; the logs of nodes have no times.
    """
    if fault.kind in NAMED_BY_THE_NODE:
        found = re.search(NAMED_BY_THE_NODE[fault.kind], stage.log(f"node_{fault.client}"))
    else:
        away = rf"client {fault.client} \((node|client)[^;\n]*?({_AWAY})"
        run = "\n".join(line for when, line in list(stage.lines) if when >= at)
        found = re.search(_OF_THE_RUN.get(fault.kind, away), run)
    return None if found is None else found[0][:160]


def rounds_are_all_there(stage, rounds):
    """No round is missing, none is twice, and the numbers of the protocol only go forward."""
    found = read(stage.records)
    assert found.finished
    assert [record.round for record in found.rounds] == list(range(rounds))
    assert all(record.skipped is None for record in found.rounds)
    numbers = [record.deployed.number for record in found.rounds]
    assert all(one < other for one, other in pairwise(numbers)), numbers
    return found.rounds


def nothing_below_the_crowd_opened(stage, records):
    """Neither a sum of fewer clients than the roster allows, nor sums whose differences are one."""
    crowd = read_roster(stage.roster_path).min_crowd
    for record in records:
        assert record.crowd >= crowd, record
        assert record.leak.exposed == 0, record
        assert record.leak.crowd >= crowd, record
    for closed in server_rounds(stage):
        for shard in closed.shards:
            assert len(shard.survivors) == 0 or len(shard.survivors) >= crowd, shard


def server_rounds(stage):
    """Return what the server's own log says about each round."""
    (path,) = stage.records.parent.glob("*.log")
    found = []
    for text in path.read_bytes().splitlines():
        with suppress(PeerError):  # A torn line, which the next one names.
            found.append(read_line(text).data)
    return [data for data in found if isinstance(data, RoundClosed)]


def models_are_sums_of_survivors(stage, records):
    """Every model is what the clients in its sums alone would have made of the one before.

    To a quarter of a step of the fixed point: the mean over five shards is rounded. Any client more or less in a sum
    moves most coordinates by several steps.
    """
    closed = {each.round: each for each in server_rounds(stage)}
    model = start()
    for record in records:
        shards = [each.survivors for each in closed[record.deployed.number].shards if each.survivors]
        model = moved(model, shards, record.round + 1)
        path = stage.folder / "desk" / "models" / f"{record.round + 1}.npy"
        if path.exists():  # A crash between the record and the hook leaves none.
            found = np.load(io.BytesIO(path.read_bytes()))
            off = np.abs(found - model).max()
            assert off <= STEP / 4, f"round {record.round + 1} is off by {off / STEP:.3g} steps"
            model = found


def logs_agree(stage):
    """The signed logs of all nodes and of the server are whole, and tell one story.

    Rounds in which the server was killed are missing in its own log; the records have no round of these numbers.
    """
    logs = [path for client in range(stage.members + 1) for path in stage.state_of(client).glob("*.log")]
    logs += stage.records.parent.glob("*.log")
    rosters = [word for path in sorted(stage.serials.iterdir()) for word in ("--roster", str(path))]
    stage.command("log", "verify", *map(str, logs), *rosters)
    found = json.loads(stage.command("log", "compare", *map(str, logs), *rosters, "--json", status=None))["findings"]
    led = {f"round {record.deployed.number}" for record in read(stage.records).rounds}
    wrong = [each for each in found if each["serious"] and (each["kind"] != "unlisted-round" or each["where"] in led)]
    assert not wrong, wrong
    return len(logs)
