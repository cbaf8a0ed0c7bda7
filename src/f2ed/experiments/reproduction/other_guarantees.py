"""Rivals that promise something else: FedGT names malicious clients, RiseFL shows the server nothing but a sum."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from f2ed.experiments.reproduction.comparison import Table

__all__ = ["FEDGT", "RISEFL", "GroupTest", "cost_table", "group_test_table"]

FEDGT = """FedGT's setting: MNIST, 15 clients with logistic regression, 10 rounds; malicious clients call every one a
seven. In the second round FedGT's code tests 8 overlapping groups of 4 clients: it sees the sum over each, has 100
images of its own (or 1,000, in the second row), and knows the class under attack. FilterL2 assumes at most 5 malicious
clients, or 2 contaminated shards of 3 clients; a client counts as found if in that round its weight, or that of its
shard, is below half of an equal share. Malicious clients found, and honest ones named wrongly, over three seeds; in
parentheses the share of ones recognized after the last round. The rows for each client were in the clear here; with
[helpers](helpers.md) the same rule runs on rows that no party sees."""
RISEFL = """RiseFL proves to a single server that the norm of each update is bounded. CPU seconds of a round of 100
clients, of whom 10 may be malicious, in its own benchmark (C++, 1,000 samples, 16-bit weights; it runs one client and
multiplies), beside a round of ours with [helpers](helpers.md) on the same machine: one client, and server, mixer and
judge together. RiseFL sends 32 bytes per parameter, a commitment, by its message format; helpers send 8. The
guarantees differ: a norm bound stops long updates only, and a backdoor need not be longer than an honest update;
RiseFL's bound holds against any client and needs no second party."""


class GroupTest(msgspec.Struct, frozen=True):
    """One federation in which clients were to be found: who was, who is, and how good the model was."""

    rule: str
    malicious: int
    seed: int
    found: list[int] | None
    truth: list[int]
    accuracy: float
    source_recall: float


def group_test_table(runs: Sequence[GroupTest]) -> Table:
    """Return for each rule and number of malicious clients how many were found, and how many honest ones."""
    counts = sorted({run.malicious for run in runs})
    rows = []
    for rule in dict.fromkeys(run.rule for run in runs):
        cells = [_named([run for run in runs if (run.rule, run.malicious) == (rule, count)]) for count in counts]
        rows.append((rule, *cells))
    return Table("", ("rule", *(f"{count} malicious" for count in counts)), tuple(rows))


def _named(runs: Sequence[GroupTest]) -> str:
    recall = f"{100 * fmean(run.source_recall for run in runs):.1f} %"
    if any(run.found is None for run in runs):
        return f"({recall})"
    right = sum(len(set(run.found or ()) & set(run.truth)) for run in runs)
    wrong = sum(len(set(run.found or ()) - set(run.truth)) for run in runs)
    return f"{right} of {sum(len(run.truth) for run in runs)}, {wrong} wrong ({recall})"


def cost_table(path: Path) -> Table:
    """Return what a round costs a client and the servers, beside a round with helpers."""
    rows = []
    for each in msgspec.json.decode(path.read_bytes()):
        theirs, ours = each["risefl"], each["helpers"]
        client, parties = ours["client_ms"] / 1000, ours["parties_s"]
        rows.append(
            (
                f"{theirs['coordinates']:,}",
                f"{theirs['client_s']:.2f}",
                f"{client:.4f}",
                f"{theirs['client_s'] / client:,.0f}",
                f"{theirs['server_s']:.1f}",
                f"{parties:.2f}",
                f"{theirs['server_s'] / parties:,.0f}",
            )
        )
    head = ("parameters", "client, RiseFL", "client, helpers", "ratio", "server, RiseFL", "three parties", "ratio")
    return Table("", head, tuple(rows))
