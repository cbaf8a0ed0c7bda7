"""Months of joins, leaves, dropouts, runs and colluders: the server solves for one client with all that it saw.

Rosters are signed as an authority signs them, and every step is checked as a node checks it. The server opens whatever
its nodes would confirm: any union of whole groups, in any round and run. Colluders, as many as the roster fears, tell
it their own updates. The updates never change, which is the server's best case.
"""

from itertools import combinations

import numpy as np
import pytest

from f2ed import ConfigError
from f2ed.deployment.roster import Entry, Roster, leak_bound, revised, signed
from f2ed.deployment.roster.groups import check_step, rows
from f2ed.deployment.roster.parts import Gone
from f2ed.guarantees import leverages, worst_leverages
from f2ed.protocol.secagg import public_key

AUTHORITY, CHAIN = bytes([7]) * 32, bytes([8]) * 32
SETTINGS = {"min_crowd": 4, "seed": CHAIN, "colluders": 1, "shards": None}


def entry(client):
    return Entry(client, f"c{client}", public_key(client.to_bytes(32, "big")))


def first(count, size, **settings):
    draft = Roster(name="clinics", authority=public_key(AUTHORITY), clients=tuple(map(entry, range(1, count + 1))))
    return signed(draft, AUTHORITY, **SETTINGS | {"shards": count // size, "group_size": size} | settings)


def moved(roster, leaving, joining, **settings):
    """Return the next serial after some left and others came."""
    known = max(each.id for each in (*roster.clients, *roster.gone))
    stay = tuple(each for each in roster.clients if each.id not in leaving)
    left = tuple(Gone(each.id, each.name, each.key) for each in roster.clients if each.id in leaving)
    came = tuple(entry(known + 1 + number) for number in range(joining))
    draft = revised(roster, clients=stay + came, gone=(*roster.gone, *left))
    keep = {"mode": roster.mode, "group_size": roster.grouping.size, "malicious": roster.grouping.malicious}
    after = signed(draft, AUTHORITY, **SETTINGS | keep | settings)
    check_step(roster, after)
    return after


def seen(rosters, rng, rounds=25):
    """Return the sums that a server saw: in every round some groups are alive, whoever dropped out."""
    found = []
    for roster in rosters:
        for _ in range(rounds):
            alive = [group for group in roster.groups if rng.random() < 0.7]
            found.append({client: 1 for group in alive for client in group.members})
    return [row for row in found if row]


def cosines(sums, known=()):
    """Return, for each client, the cosine between its update and the server's best guess of it."""
    clients = sorted({client for row in sums for client in row} - set(known))
    matrix = np.array([[float(client in row) for client in clients] for row in sums])
    updates = np.linalg.qr(np.random.default_rng(1).normal(size=(400, len(clients))))[0].T
    guess = np.linalg.pinv(matrix) @ (matrix @ updates)
    lengths = np.maximum(np.linalg.norm(guess, axis=1), 1e-12)
    return dict(zip(clients, np.sum(guess * updates, axis=1) / lengths, strict=True))


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("seed", range(3))
def test_months_of_joins_and_leaves_give_nobody_away(mode, seed):
    rng = np.random.default_rng(seed)
    rosters = [first(24, 6, mode=mode, malicious=1, chance=0.5)]
    for _ in range(6):
        now = rosters[-1]
        here = [each.id for each in now.clients]
        leaving = set(rng.choice(here, size=rng.integers(0, 2), replace=False).tolist())
        rosters.append(moved(now, leaving, int(rng.integers(0, 4))))
    sums = seen(rosters, rng)
    # Accomplices of the server: one in each group that ever was, if not in it already.
    groups = {group.members for roster in rosters for group in roster.groups}
    known: set[int] = set()
    for members in sorted(groups):
        if not known & set(members):
            known.add(int(rng.choice(members)))
    assert max(cosines(sums).values()) <= np.sqrt(leak_bound(rosters[-1])) + 1e-6
    assert max(cosines(sums, known).values()) <= np.sqrt(1 / rosters[-1].grouping.hidden) + 1e-6


def test_new_groups_for_everyone_do_not_give_one_of_six_movers_to_five_accomplices():
    """The sums before and after differ by those who came and left: 0.25 by itself, all of it with the other five."""
    before = first(72, 12, mode="all-or-nothing", malicious=7, chance=0.5)
    leaving = {min(group.members) for group in before.groups[:3]}
    with pytest.raises(ConfigError, match=r"7 colluders, of whom 1 are in a group.* determine 1\.00 of the update of"):
        moved(before, leaving, 3, regroup="all")
    risky = revised(before, accepted=("leak",))
    after = moved(risky, leaving, 3, regroup="all", accepted=("leak",))
    every = rows((*after.groups, *after.history))
    assert max(leverages(every).values()) < leak_bound(after)
    movers = sorted(leaving | {each.id for each in after.clients if each.id > 72})
    assert cosines(every, movers[1:])[movers[0]] == pytest.approx(1)


def test_enough_who_come_and_leave_at_once_hide_each_other():
    before = first(72, 12, mode="all-or-nothing", malicious=7, chance=0.5)
    after = moved(before, set(range(1, 7)), 6, regroup="all")
    found = worst_leverages(rows((*after.groups, *after.history)), in_row=1, in_all=7)
    assert max(found.values()) <= 0.5


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 2, 3, 4), (5, 1, 1, 1, 1)])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_worst_colluders_of_one_group_are_the_heaviest(weights, number):
    row = dict(enumerate(weights))
    for client, share in worst_leverages([row], in_row=number, in_all=9).items():
        others = [other for other in row if other != client]
        left = [sum(row[each] ** 2 for each in row if each not in out) for out in combinations(others, number)]
        assert share == pytest.approx(row[client] ** 2 / min(left))


def test_chosen_colluders_are_those_that_an_exhaustive_search_finds():
    sums = [dict.fromkeys(members, 1) for members in ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 4, 5), (2, 3, 6, 8))]
    found = worst_leverages(sums, in_row=1, in_all=2)
    for client in range(9):
        sets = [
            out
            for out in combinations(sorted(set(range(9)) - {client}), 2)
            if all(len(set(out) & set(row)) <= 1 for row in sums)
        ]
        assert found[client] == pytest.approx(max(cosines(sums, out)[client] ** 2 for out in sets), abs=1e-6)
