"""A round with helpers: CPU time of client, server, mixer and judge, bytes and memory, beside AES alone.

    python benchmarks/helpers.py                    100 clients, a million parameters (about a minute)
    python benchmarks/helpers.py --quick            30 clients, 100,000 parameters
    python benchmarks/helpers.py --clients 1000 --disk FOLDER    masked rows in a file there (8 GB)
    python benchmarks/helpers.py --relay full       the mixer checks every row

Times are CPU seconds of this process in one thread, so that a busy machine changes them little; AES-256-CTR over the
same words is measured in the same run, and is what masks cost at least.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path
from time import process_time

import numpy as np
from timing import peak_bytes, table

from f2ed.deployment.row_file import FileRows
from f2ed.estimators import FilterL2
from f2ed.protocol.helpers import (
    JUDGE,
    MIXER,
    ROLES,
    HelpedClient,
    Helper,
    HelpersProtocol,
    MemoryRows,
    Party,
    ServerTask,
    begin_job,
    encoded,
    helped_mean,
    helper_terms,
    respond_as_client,
    respond_as_judge,
    respond_as_mixer,
)
from f2ed.protocol.primitives.crypto import Keystream, public_key
from f2ed.protocol.primitives.hybrid import encapsulate

POLICY = hashlib.sha256(b"benchmark").digest()
MODEL = hashlib.sha256(b"model").digest()
RESPOND = {MIXER: respond_as_mixer, JUDGE: respond_as_judge}


class Clock:
    """CPU seconds by party."""

    def __init__(self):
        self.spent = {}

    def __call__(self, party, work):
        since = process_time()
        try:
            return work()
        finally:
            self.spent[party] = self.spent.get(party, 0.0) + process_time() - since


def update(client, coordinates):
    """Return an update near a common direction; nobody is charged for it."""
    rng = np.random.default_rng(client)
    row = rng.standard_normal(coordinates, dtype=np.float32)
    row[: coordinates // 10] += 1
    return row / np.linalg.norm(row)


def run(clients, coordinates, relay, disk):
    keys = {role: os.urandom(32) for role in ROLES}
    client_keys = {client: os.urandom(32) for client in range(clients)}
    roster = {client: public_key(key) for client, key in client_keys.items()}
    parties = {role: Party(f"operator of the {role}", public_key(key)) for role, key in keys.items()}
    terms = helper_terms(
        HelpersProtocol(guard="nested", relay=relay),
        policy=POLICY,
        job="benchmark",
        round_=0,
        members=range(clients),
        coordinates=coordinates,
        clip_norm=1.0,
        rule=FilterL2(contamination=0.08),
        parties=parties,
    )
    rows = MemoryRows() if disk is None else FileRows(Path(disk) / "rows.bin", terms.members, coordinates)
    states = dict.fromkeys(RESPOND, begin_job(POLICY, "benchmark"))
    helpers = {
        role: Helper(
            role=role,
            operator=parties[role].operator,
            signing_key=keys[role],
            roster=roster,
            policy=POLICY,
            job="benchmark",
        )
        for role in RESPOND
    }
    task = ServerTask(
        terms=terms, roster=roster, model=MODEL, signing_key=keys["server"], entropy=os.urandom(32), rows=rows
    )
    clock, sizes, largest = Clock(), {}, {}
    server = helped_mean(task)
    requests = clock("server", lambda: next(server))
    outcome = None
    while outcome is None:
        asked = dict(requests)
        reply = {}
        for party, request in asked.items():
            if party in RESPOND:
                answer = clock(
                    party,
                    lambda party=party, request=request: RESPOND[party](
                        helpers[party], states[party], request, entropy=os.urandom(32), half=os.urandom(32)
                    ),
                )
                states[party] = answer.state
                largest[party] = max(largest.get(party, 0), len(answer.state))
                sizes[party] = sizes.get(party, 0) + len(request) + len(answer.reply)
                reply[party] = answer.reply
                continue
            row = update(party, coordinates)
            known = HelpedClient(
                id=party,
                signing_key=client_keys[party],
                roster=roster,
                policy=POLICY,
                job="benchmark",
                parties=tuple(parties[role].key for role in ROLES),
            )
            answer = clock(
                "client",
                lambda known=known, row=row, request=request: respond_as_client(
                    known,
                    b"",
                    request,
                    model=MODEL,
                    numbers=encoded(row, key=os.urandom(32)),
                    entropy=os.urandom(32),
                    encapsulate=encapsulate,
                ),
            )
            sizes["client"] = len(answer.reply)
            # One upload at a time, as they arrive.
            try:
                requests = clock("server", lambda party=party, reply=answer.reply: server.send({party: reply}))
            except StopIteration as stop:
                outcome = stop.value
        if reply:
            try:
                requests = clock("server", lambda reply=reply: server.send(reply))
            except StopIteration as stop:
                outcome = stop.value
    if disk is not None:
        rows.close()
    if outcome.aborted:
        raise SystemExit(outcome.aborted)
    return clock.spent, sizes, largest, len(outcome.kept)


def aes(clients, coordinates):
    """Return CPU seconds of AES-256-CTR over as many words as one party expands once."""
    out = memoryview(bytearray(1 << 17))
    since = process_time()
    for _ in range(clients):
        stream = Keystream(os.urandom(32))
        for _ in range(0, 8 * coordinates, len(out)):
            stream.fill(out)
    return process_time() - since


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--coordinates", type=int, default=1_000_000)
    parser.add_argument("--relay", choices=["sketch", "full"], default="sketch")
    parser.add_argument("--disk", help="folder for the masked rows")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    clients, coordinates = (30, 100_000) if given.quick else (given.clients, given.coordinates)
    expansion = aes(clients, coordinates)
    spent, sizes, states, kept = run(clients, coordinates, given.relay, given.disk)
    found = {
        "clients": clients,
        "coordinates": coordinates,
        "relay": given.relay,
        "kept": kept,
        "client_ms": 1e3 * spent["client"] / clients,
        "client_bytes_per_parameter": sizes["client"] / coordinates,
        "envelope_bytes": sizes["client"] - 8 * coordinates,
        "server_s": spent["server"],
        "mixer_s": spent[MIXER],
        "judge_s": spent[JUDGE],
        "parties_s": spent["server"] + spent[MIXER] + spent[JUDGE],
        "aes_s": expansion,
        "mixer_bytes": sizes[MIXER],
        "judge_bytes": sizes[JUDGE],
        "mixer_state_bytes": states[MIXER],
        "judge_state_bytes": states[JUDGE],
        "peak_bytes": peak_bytes(),
    }
    if given.json:
        print(json.dumps(found))
        return
    print(f"{clients} clients, {coordinates:,} parameters, relay {given.relay}, {kept} in the sum\n")
    table(
        ["party", "CPU s", "x AES over its words once"],
        [[role, found[f"{role}_s"], found[f"{role}_s"] / expansion] for role in ("server", "mixer", "judge")],
    )
    for name in (
        "client_ms",
        "client_bytes_per_parameter",
        "envelope_bytes",
        "parties_s",
        "mixer_bytes",
        "judge_bytes",
    ):
        print(f"{name}: {found[name]:,.4g}")
    for name in ("mixer_state_bytes", "judge_state_bytes", "peak_bytes"):
        print(f"{name}: {found[name] / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
