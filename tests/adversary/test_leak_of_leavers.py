"""A hospital leaves, another joins, weights change, a new federation of the same people: nobody can be solved for.

Rosters are made by the commands that an authority runs. The attack is a numeric solve: the server knows the sums over
all groups that were ever opened, at its best with updates that never change.
"""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from f2ed import ConfigError
from f2ed.cli.roster import add, key, new, remove, sign
from f2ed.core.errors import Refusal
from f2ed.deployment.opened import OpenedMeter, OpenedSum, forecast
from f2ed.deployment.roster import check_groups, check_step, leak_bound, leak_of, read_roster
from f2ed.records import text
from tests.flower.fake_grid import FakeGrid, Node, model, server, user_app

replace = msgspec.structs.replace


class Authority:
    """Signs as an authority does, in a folder of its own."""

    def __init__(self, folder, clients, **settings):
        self.folder, self.path, self.count = folder, folder / "roster.json", 0
        new(self.path, name="clinics", authority=folder / "authority.key")
        self.join(clients)
        self.sign(**settings)

    def join(self, count):
        for _ in range(count):
            key(self.folder / f"client_{self.count}.key")
            add(self.path, [self.folder / f"client_{self.count}.pub"])
            self.count += 1

    def leave(self, *clients):
        remove(self.path, [f"client_{client}" for client in clients])

    def sign(self, *, accept=(), **settings):
        sign(self.path, authority=self.folder / "authority.key", accept=["unpinned-app", *accept], **settings)
        return self.roster

    @property
    def roster(self):
        return read_roster(self.path)


def solved(rosters, seed=0):
    """Return, for each client that ever was, the cosine of the best guess from the sums over all groups."""
    groups = {(group.members, group.weights) for roster in rosters for group in roster.groups}
    clients = sorted({client for members, _ in groups for client in members})
    rows = np.zeros((len(groups), len(clients)))
    for row, (members, weights) in zip(rows, sorted(groups), strict=True):
        row[[clients.index(client) for client in members]] = weights
    updates = np.linalg.qr(np.random.default_rng(seed).normal(size=(500, len(clients))))[0].T
    guess = np.linalg.pinv(rows) @ (rows @ updates)
    lengths = np.maximum(np.linalg.norm(guess, axis=1), 1e-12)
    return dict(zip(clients, np.sum(guess * updates, axis=1) / lengths, strict=True))


def check_all(rosters):
    check_groups(rosters[0])
    for old, following in pairwise(rosters):
        check_step(old, following)


@pytest.fixture
def eight(tmp_path):
    return Authority(tmp_path, 8, shards=2)


def test_one_of_eight_leaves_and_stays_hidden(eight):
    first = eight.roster
    eight.leave(3)
    second = eight.sign()
    check_all([first, second])
    assert max(solved([first, second]).values()) == pytest.approx(0.5)
    assert leak_of(second)[3] == pytest.approx(0.25)
    assert len(second.waiting) == 3
    said = text.leak(forecast(second, rounds=10), rounds=10, clients=7)
    assert "determine no single client and no group smaller than 4" in said


def test_one_of_eight_leaves_and_the_others_go_on_only_where_the_leak_is_accepted_and_said(eight):
    first = eight.roster
    eight.leave(3)
    with pytest.raises(ConfigError, match=r"determine the update of client_3, who left exactly.*--accept leak"):
        eight.sign(regroup="all")
    second = eight.sign(regroup="all", accept=["leak"])
    assert solved([first, second])[3] == pytest.approx(1)
    said = text.leak(forecast(second, rounds=10), rounds=10, clients=7)
    assert "determine 1 of 8 clients, those who left included, individually" in said
    meter = OpenedMeter(second, (), 0)
    shards = [OpenedSum(1, members, (1,) * len(members)) for members in second.assignment(0).shards]
    assert meter.observe(shards).exposed == 1
    with pytest.raises(Refusal, match="determine the update of client_3, who left exactly"):
        check_step(first, replace(second, accepted=()))


def test_a_server_that_never_saw_the_former_groups_says_the_same(eight, caplog):
    first = eight.roster
    assert first.serial == 1
    eight.leave(3)
    roster = eight.sign(regroup="all", accept=["leak"], min_crowd=3)
    names = [entry.name for entry in roster.clients]
    settings = [
        {
            "f2ed-key": str(eight.folder / f"{name}.key"),
            "f2ed-roster": str(eight.path),
            "f2ed-authority": str(eight.folder / "authority.pub"),
        }
        for name in names
    ]
    nodes = [Node(entry.id, user_app(), own) for entry, own in zip(roster.clients, settings, strict=True)]
    leader = server(roster)
    leader.start(FakeGrid(nodes, 7), model(), num_rounds=1)
    assert "determine 1 of 8 clients, those who left included, individually" in caplog.text
    assert leader.records[-1].leak.exposed == 1


def test_one_who_joins_waits(eight):
    first = eight.roster
    eight.join(1)
    second = eight.sign()
    check_all([first, second])
    assert second.waiting == (8,)
    with pytest.raises(Refusal, match="client 8 waits"):
        second.shard_of(8, 0)
    with pytest.raises(ConfigError, match=r"determine the update of client_\d exactly"):
        eight.sign(regroup="all")


def test_four_who_join_are_a_group_of_their_own(eight):
    rosters = [eight.roster]
    for _ in range(4):
        eight.join(1)
        rosters.append(eight.sign())
    check_all(rosters)
    assert [len(roster.groups) for roster in rosters] == [2, 2, 2, 2, 3]
    assert rosters[-1].shards == 3
    assert max(solved(rosters).values()) == pytest.approx(0.5)


def test_one_leaves_and_one_joins(eight):
    rosters = [eight.roster]
    eight.leave(0)
    eight.join(1)
    rosters.append(eight.sign())
    check_all(rosters)
    assert max(solved(rosters).values()) == pytest.approx(0.5)
    with pytest.raises(ConfigError, match=r"and at most 0\.33 is allowed|exactly"):
        eight.sign(regroup="all")


def test_large_groups_have_a_margin_for_one_more_assignment(tmp_path):
    authority = Authority(tmp_path, 48, shards=4, mode="all-or-nothing", min_crowd=10)
    rosters = [authority.roster]
    authority.leave(0, 1, 2, 3)
    authority.join(4)
    rosters.append(authority.sign(regroup="all"))
    check_all(rosters)
    bound = leak_bound(rosters[-1])
    assert max(leak_of(rosters[-1]).values()) <= bound
    assert max(solved(rosters).values()) <= np.sqrt(bound)


def test_weights_cannot_rotate_by_serials(eight):
    first = eight.roster
    heavy = replace(first, clients=tuple(replace(e, weight=1 + (e.id == 0)) for e in first.clients), weight_cap=2)
    with pytest.raises(Refusal, match="has another weight, so that the group has ended"):
        check_groups(heavy)
    group = next(group for group in first.groups if 0 in group.members)
    weights = tuple(1 + (client == 0) for client in group.members)
    changed = replace(heavy, groups=tuple(replace(g, weights=weights) if g == group else g for g in heavy.groups))
    with pytest.raises(Refusal, match="changed, or is missing from the history"):
        check_step(first, replace(changed, accepted=("leak",)))
    with pytest.raises(Refusal, match=r"0\.57 of the update of client_0"):
        check_groups(changed)
