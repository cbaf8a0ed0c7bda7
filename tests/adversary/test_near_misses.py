"""Lies that a check would let through if it were off by one, or looked at one part less."""

import msgspec
import pytest

from f2ed.core.errors import PeerError, Refusal
from f2ed.core.files import StoredValue
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.masked_metrics import MetricRule
from f2ed.deployment.pin import Pin
from f2ed.deployment.roster import revised, signed
from f2ed.deployment.roster.groups import check_step
from f2ed.deployment.roster.helper_parts import HelperEntry
from f2ed.deployment.roster.helpers import _text
from f2ed.deployment.roster.steps import check_serial
from f2ed.deployment.transparency import read_line
from f2ed.deployment.transparency.lines import SERVER, Blamed, Equivocation
from f2ed.protocol.secagg.blame import Blame, ComplaintExhibit, guilty
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import check_blame
from tests.deployment.logs import CTX, Federation, closed, kinds, texts
from tests.flower.fake_grid import real_roster
from tests.protocol.secagg.shard_driver import Shard

DAY = "2030-01-01"


@pytest.fixture
def rosters(tmp_path):
    """Two serials of one federation."""
    old, _ = real_roster(tmp_path, 6, shards=1)
    authority = read_private(tmp_path / "authority.key")
    return old, signed(revised(old), authority, shards=1, min_crowd=3, seed=bytes(32))


def test_a_preview_refuses_the_serial_that_the_node_would_refuse(tmp_path, rosters):
    """The launcher asks the pin which apps are approved: an old roster must not answer for it."""
    old, new = rosters
    pin = Pin(tmp_path / "x.pin")
    pin.follow([old, new], day=DAY)
    with pytest.raises(Refusal, match="is older than serial"):
        pin.preview([old], day=DAY)
    assert pin.preview([old, new], day=DAY) == new


def test_a_process_that_read_the_pin_before_another_moved_it_does_not_take_it_back(tmp_path, rosters, monkeypatch):
    old, new = rosters
    pin = Pin(tmp_path / "x.pin")
    pin.follow([old], day=DAY)
    reads, read = iter([pin._stored.read()]), StoredValue.read
    pin.follow([old, new], day=DAY)
    monkeypatch.setattr(StoredValue, "read", lambda stored: next(reads, None) or read(stored))
    with pytest.raises(Refusal, match="is older than serial"):
        pin.follow([old], day="2030-01-02")
    assert pin.preview([old, new], day=DAY) == new


def test_a_second_roster_with_the_same_serial_does_not_follow_the_first(rosters):
    old, new = rosters
    check_serial(old, new)
    with pytest.raises(Refusal, match="does not follow serial"):
        check_serial(old, msgspec.structs.replace(new, serial=old.serial))


def test_a_new_group_does_not_pass_for_an_older_one(tmp_path):
    """What was revealed is counted by the serial that made a group."""
    old, _ = real_roster(tmp_path, 8, shards=2, group_size=4)
    last = max(each.index for each in old.groups)
    made = tuple(
        msgspec.structs.replace(each, index=last + number, since=old.serial)
        for number, each in enumerate(old.groups, 1)
    )
    lie = msgspec.structs.replace(old, serial=old.serial + 1, groups=made, history=(*old.history, *old.groups))
    with pytest.raises(Refusal, match="its index or serial is an older one"):
        check_step(old, lie)


@pytest.mark.parametrize(
    "changes", [{"low": 1.0}, {"high": 0.0}, {"name": "n" * 81}, {"name": ""}, {"bins": 10_001}, {"bins": -1}]
)
def test_a_metric_beyond_its_bounds_is_refused(changes):
    given = {"name": "accuracy", "low": 0.0, "high": 1.0, "bins": 0}
    with pytest.raises(ValueError, match="the metric"):
        MetricRule(**given | changes)


def test_metrics_at_their_bounds_are_taken():
    assert MetricRule("n" * 80, 0.0, 1.0, 10_000).width == 10_000


# Blame.


def test_two_that_accuse_each_other_are_not_convicted_by_one_more_each():
    """One liar may be behind each of the other disputes, so that neither is more likely to lie."""
    assert guilty([(1, 2), (1, 3), (2, 4)], 1) == {}
    assert guilty([], 1) == {}


@pytest.fixture
def shard():
    return Shard(5, "dropout-tolerant")


def blame(*evidence, clients=(1, 2), fault="disputed"):
    return Blame(
        clients=clients, fault=fault, reason="", context=bytes(32), advertised=bytes(32), evidence=tuple(evidence)
    )


def exhibit(client, dealer):
    return ComplaintExhibit(client, dealer, bytes(32), bytes(64), 0, 1, (), bytes(64))


def test_a_dispute_without_evidence_blames_nobody(shard):
    with pytest.raises(PeerError, match="without evidence"):
        check_blame(blame(), shard.terms, shard.roster)


@pytest.mark.parametrize("order", [1, -1])
def test_evidence_about_strangers_is_refused_wherever_it_stands(shard, order):
    shown = [exhibit(1, 99), exhibit(1, 2)][::order]
    with pytest.raises(PeerError, match="not in the shard"):
        check_blame(blame(*shown), shard.terms, shard.roster)


# The log.


def test_lines_that_the_server_shows_as_contradictory_must_be_signed(tmp_path):
    federation = Federation.create(tmp_path)
    line = read_line(texts(federation.written())[-1][:-1])
    forged = msgspec.structs.replace(line, at="2030-01-01T00:00:00Z")
    server = federation.log(SERVER)
    server.append(Equivocation(lines=(line, forged)), closed())
    assert "signature" in kinds(federation.verify(server))


def test_a_blame_in_a_shard_that_the_roster_does_not_have_is_false(tmp_path):
    federation = Federation.create(tmp_path)
    found = Blame(clients=(0, 1), fault="disputed", reason="", context=CTX, advertised=bytes(32), evidence=())
    server = federation.log(SERVER)
    server.append(Blamed(round=0, shard=1, ctx=CTX, blame=found))
    (finding,) = federation.verify(server).findings
    assert (finding.kind, finding.lines[0].by) == ("false-blame", SERVER)
    assert "the roster has 1 shards" in finding.text


def test_a_countersignature_is_good_for_one_roster_role_and_operator(rosters):
    """Otherwise the judge's word could stand in for the mixer's, or for that of another operator."""
    entries = [HelperEntry(*each, bytes(32)) for each in (("mixer", "a"), ("judge", "a"), ("mixer", "b"))]
    assert len({_text(roster, entry) for roster in rosters for entry in entries}) == 6
