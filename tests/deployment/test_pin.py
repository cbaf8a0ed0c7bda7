"""A node goes from serial to serial: forward only, by the rules, and to weaker settings only if its site agrees."""

import os

import msgspec
import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError, Refusal
from f2ed.core.files import StoredValue
from f2ed.deployment.pin import Pin, accept_weaker, reset_day
from f2ed.deployment.roster import Entry, Roster, SignedEncoding, TrainingRules, revised, signed
from f2ed.deployment.roster.parts import Gone, Grouping
from f2ed.deployment.roster.steps import JUDGED, weaknesses
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.primitives.crypto import sign
from f2ed.protocol.secagg import public_key

AUTHORITY, CHAIN = bytes([7]) * 32, bytes([8]) * 32
DAY = "2030-06-01"
SETTINGS = {"shards": 1, "min_crowd": 4, "seed": CHAIN, "key_rounds": 10, "skip": 20}


def entries(count):
    return tuple(Entry(client, f"c{client}", public_key(bytes([client + 1]) * 32)) for client in range(count))


def first(**fields):
    fields = {"name": "clinics", "encoding": SignedEncoding(clip_norm=1.0), "noise_multiplier": 1.0} | fields
    draft = Roster(authority=public_key(AUTHORITY), clients=entries(6), **fields)
    return signed(draft, AUTHORITY, **SETTINGS)


def after(roster, **changes):
    """Return the next serial, signed by an authority that checks nothing."""
    made = replace(revised(roster, **changes), serial=roster.serial + 1)
    return replace(made, signature=sign(AUTHORITY, made.digest))


@pytest.fixture
def pin(tmp_path):
    return Pin(tmp_path / "state" / "lineage.pin")


def followed(pin, *shown, day=DAY):
    return pin.follow(shown, day=day).serial


def test_the_first_roster_is_the_one_that_the_site_gives_and_newer_ones_follow(pin):
    one = replace(after(after(first())), previous=b"")
    one = replace(one, signature=sign(AUTHORITY, one.digest))
    two = after(one, key_rounds=9)
    assert followed(pin, one) == 3
    assert followed(pin, one) == 3
    assert followed(pin, two) == 4
    assert followed(Pin(pin.path), two) == 4


def test_an_older_serial_is_refused(pin):
    one = first()
    two = after(one, key_rounds=9)
    assert followed(pin, two) == 2
    with pytest.raises(Refusal, match=r"serial 1 of the roster 'clinics' is older than serial 2"):
        followed(pin, one)
    assert followed(pin, one, two) == 2  # among all serials, in a folder


def test_a_preview_refuses_what_following_would_and_changes_nothing(pin):
    one = first()
    two = after(one, key_rounds=9)
    assert pin.preview([two], day=DAY).serial == 2
    assert not pin.path.exists()
    followed(pin, two)
    with pytest.raises(Refusal, match=r"serial 1 of the roster 'clinics' is older than serial 2"):
        pin.preview([one], day=DAY)
    with pytest.raises(Refusal, match=r"the clock of this node says 2030-05-31"):
        pin.preview([two], day="2030-05-31")


@pytest.fixture
def meanwhile(monkeypatch):
    """Let another process of the node do something after this one has read the pin, and before it holds the lock."""
    hold, waiting = StoredValue.hold, []

    def late(self, **options):
        if waiting:
            waiting.pop()()
        return hold(self, **options)

    monkeypatch.setattr(StoredValue, "hold", late)
    return waiting.append


def test_another_process_that_moved_on_meanwhile_is_not_overtaken(pin, meanwhile):
    one = first()
    two = after(one, key_rounds=9)
    meanwhile(lambda: followed(pin, two))
    with pytest.raises(Refusal, match=r"serial 1 of the roster 'clinics' is older than serial 2"):
        followed(pin, one)
    assert followed(pin, two) == 2


def test_a_day_that_another_process_saw_meanwhile_counts(pin, meanwhile):
    one = first()
    followed(pin, one, day="2030-05-01")
    meanwhile(lambda: followed(pin, one, day="2030-06-03"))
    with pytest.raises(Refusal, match=r"the clock of this node says 2030-06-01, and it has seen 2030-06-03"):
        followed(pin, one)
    meanwhile(lambda: followed(pin, one, day="2030-06-04"))
    assert followed(pin, one, day="2030-06-05") == 1
    with pytest.raises(Refusal, match=r"2030-06-04, and it has seen 2030-06-05"):
        followed(pin, one, day="2030-06-04")


def test_two_rosters_with_one_serial_are_refused_whether_shown_or_followed(pin):
    one = first()
    left, right = after(one, key_rounds=9), after(one, key_rounds=8)
    with pytest.raises(Refusal, match="two different rosters 'clinics' with serial 2"):
        followed(pin, left, right)
    followed(pin, one)
    followed(pin, left)
    with pytest.raises(Refusal, match="two different rosters 'clinics' with serial 2"):
        followed(pin, right)
    three = after(left)
    followed(pin, three)
    with pytest.raises(Refusal, match="two different rosters 'clinics' with serial 2"):
        followed(pin, right, three)


def test_serials_in_between_must_be_shown(pin):
    one = first()
    two = after(one, key_rounds=9)
    three = after(two, key_rounds=8)
    followed(pin, one)
    with pytest.raises(Refusal, match=r"serial 3 .* does not follow serial 1.*all serials in between into one folder"):
        followed(pin, three)
    assert followed(pin, two, three) == 3


def test_a_serial_that_names_another_before_it_is_refused(pin):
    one = first()
    followed(pin, one)
    with pytest.raises(Refusal, match="does not follow serial 1"):
        followed(pin, after(replace(one, seed=one.seed, previous=b"", signature=b""), key_rounds=9))


def test_an_expired_roster_is_refused_from_the_day_after(pin):
    roster = first(expires="2030-06-02")
    assert followed(pin, roster, day="2030-06-02") == 1
    with pytest.raises(Refusal, match=r"serial 1 .* expired on 2030-06-02, and this is 2030-06-03"):
        followed(pin, roster, day="2030-06-03")
    assert followed(pin, after(roster, expires="2030-07-01"), day="2030-06-03") == 2


def test_a_clock_that_goes_back_is_refused(pin):
    roster = first(expires="2030-06-30")
    followed(pin, roster, day="2030-06-20")
    with pytest.raises(Refusal, match="the clock of this node says 2030-06-19, and it has seen 2030-06-20"):
        followed(pin, roster, day="2030-06-19")


def test_a_site_whose_clock_was_ahead_can_say_so(pin):
    roster = first(expires="2031-01-01")
    followed(pin, roster, day="2030-08-20")
    with pytest.raises(
        Refusal, match=r"If it is right now, and was wrong before: f2ed roster reset-day --state FOLDER"
    ):
        followed(pin, roster)
    assert reset_day(pin.path.parent, day=DAY) == ["clinics"]
    assert followed(pin, roster) == 1
    assert reset_day(pin.path.parent, day=DAY) == []
    assert reset_day(pin.path.parent, day="2030-09-01") == [], "it never goes forward"
    with pytest.raises(Refusal, match="it has seen 2030-06-01"):
        followed(pin, roster, day="2030-05-31")


def test_rounds_do_not_begin_earlier(pin):
    one = first()
    two = after(one, first_round=40)
    followed(pin, one)
    followed(pin, two)
    with pytest.raises(Refusal, match="serial 3 begins at round 39, before round 40 of serial 2"):
        followed(pin, after(two, first_round=39))


def test_nobody_who_left_is_forgotten_and_no_id_is_used_again(pin):
    one = first()
    followed(pin, one)
    mallory = public_key(os.urandom(32))
    for clients in (one.clients[:-1], (*one.clients[:-1], Entry(9, "c5", one.clients[5].key))):
        with pytest.raises(Refusal, match="client 5, c5, of serial 1 is neither on serial 2 nor among those who left"):
            followed(pin, after(one, clients=clients))
    for other in (Entry(5, "c5", mallory), Entry(5, "mallory", one.clients[5].key)):
        with pytest.raises(Refusal, match="client 5 was c5 in serial 1, and has another name or key in serial 2"):
            followed(pin, after(one, clients=(*one.clients[:-1], other)))
    with pytest.raises(Refusal, match="client 5 was c5 in serial 1"):
        followed(pin, after(one, clients=one.clients[:-1], gone=(Gone(5, "c5", mallory),)))


def test_who_left_stays_gone(pin):
    gone = Gone(9, "former", public_key(os.urandom(32)))
    one = first(gone=(gone,))
    followed(pin, one)
    with pytest.raises(Refusal, match="client 9, former, of serial 1 is neither"):
        followed(pin, after(one, gone=()))
    with pytest.raises(Refusal, match="client 9, former, of serial 1 is neither"):
        followed(pin, after(one, gone=(), clients=(*one.clients, Entry(9, "former", gone.key))))


def test_the_rules_of_groups_are_checked_in_every_step(pin):
    one = first()
    followed(pin, one)
    (group,) = one.groups
    with pytest.raises(Refusal, match="group"):
        followed(pin, after(one, groups=(replace(group, weights=(1, 1, 1, 1, 1, 2)),)))
    with pytest.raises(Refusal, match="the seed of this roster does not follow"):
        followed(pin, after(one, seed=bytes(32)))


WEAKER = {
    "min_crowd": 3,
    "colluders": 0,
    "noise_multiplier": 0.5,
    "key_rounds": 11,
    "skip": 21,
    "weight_cap": 2,
    "encoding": SignedEncoding(clip_norm=2.0),
    "grouping": Grouping(size=5, malicious=0),
    "mode": "dropout-tolerant",
    "buffers": Buffers(),
    "agreement": "x25519",
    "training": None,
    "accepted": ("leak",),
    "helpers": None,
}
FREE = {
    *("name", "authority", "format", "serial", "previous", "clients", "gone", "shards", "schedule"),
    *("first_round", "shards_per_round", "groups", "history", "draw", "apps", "server", "seed", "signature"),
    "countersignatures",
}
"""Fields that the authority may change, or that other checks hold."""


def test_every_field_of_a_roster_is_judged_or_free():
    assert set(WEAKER) | {"expires"} == JUDGED
    assert set(Roster.__struct_fields__) == JUDGED | FREE


@pytest.mark.parametrize("field", sorted(set(WEAKER) - {"training", "helpers"}))
def test_a_weaker_setting_waits_until_the_site_agrees(pin, field):
    one = first()
    two = after(one, **{field: WEAKER[field]})
    followed(pin, one)
    with pytest.raises(Refusal, match=r"serial 2 of the roster is weaker than serial 1.*f2ed roster accept \w{64} "):
        followed(pin, two)
    assert followed(pin, one) == 1
    accept_weaker(pin.path.parent, two.digest)
    assert followed(pin, two) == 2
    assert followed(pin, two) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_crowd": 3, "skip": 30}, ["min_crowd 4 → 3", "skip 20 → 30"]),
        ({"encoding": SignedEncoding(clip_value=2.0, clip_norm=1.0)}, ["clip_value 1.0 → 2.0"]),
        (
            {"encoding": SignedEncoding(), "noise_multiplier": 0.0},
            ["noise_multiplier 1.0 → 0.0", "clip_norm 1.0 → inf"],
        ),
        ({"accepted": ("leak", "pool")}, ["the risk 'leak' is accepted", "the risk 'pool' is accepted"]),
        (
            {"training": TrainingRules(stateful=True), "accepted": ("stateful",)},
            ["stateful False → True", "the risk 'stateful' is accepted"],
        ),
        ({"min_crowd": 5, "skip": 19, "key_rounds": 5, "noise_multiplier": 2.0}, []),
    ],
)
def test_it_is_said_exactly_what_got_weaker(changes, said):
    one = first()
    assert list(weaknesses(one, after(one, **changes))) == said


def test_what_counts_is_what_the_node_would_follow_not_what_it_passed(pin):
    one = first()
    two = after(one, skip=30)
    three = after(two, skip=20)
    followed(pin, one)
    assert followed(pin, two, three) == 3


def test_groups_that_were_drawn_under_weaker_rules_count_after_the_rules_are_restored(pin):
    """An authority that accepts a risk for one draw, and takes it back at once, still asks the site."""
    one = first()
    left = one.clients[5]
    fewer = revised(one, clients=one.clients[:5], gone=(Gone(5, left.name, left.key),), accepted=("leak", "pool"))
    two = signed(fewer, AUTHORITY, group_size=5, regroup="all", **SETTINGS)
    three = after(two, accepted=("leak",))
    followed(pin, one)
    with pytest.raises(Refusal, match="the risk 'leak' is accepted; the risk 'pool' is accepted"):
        followed(pin, two, three)
    accept_weaker(pin.path.parent, three.digest)
    assert followed(pin, two, three) == 3


def test_agreeing_to_one_roster_is_not_agreeing_to_another(pin):
    one = first()
    two = after(one, skip=30)
    accept_weaker(pin.path.parent, two.digest)
    followed(pin, one)
    with pytest.raises(Refusal, match="weaker"):
        followed(pin, after(one, skip=31))


def test_a_damaged_pin_is_refused(pin):
    followed(pin, first())
    pin.path.write_bytes(msgspec.json.encode({"roster": 1}))
    with pytest.raises(ConfigError, match=r"the roster that this node follows .*restore it"):
        followed(pin, first())


def test_a_pin_is_written_when_something_changes_and_not_for_every_message(pin):
    roster = first()
    followed(pin, roster)
    before = pin.path.stat().st_ino
    followed(pin, roster)
    assert pin.path.stat().st_ino == before
    followed(pin, roster, day="2030-06-02")
    assert pin.path.stat().st_ino != before


def test_a_roster_that_no_longer_expires_waits_until_the_site_agrees(pin):
    one = first(expires="2030-09-01")
    two, later = after(one, expires=""), after(one, expires="2030-12-01")
    followed(pin, one)
    with pytest.raises(Refusal, match=r"expires 2030-09-01 → never"):
        followed(pin, two)
    assert followed(pin, later) == 2


@pytest.mark.parametrize("day", ["9999-12-31", "2031-09-03", "2031-02-31"])
def test_nor_does_one_that_expires_only_in_years(pin, day):
    """Else the last day would bound nothing: a server may withhold the next serial until then."""
    one = first(expires="2030-09-01")
    followed(pin, one)
    with pytest.raises(Refusal, match=f"expires 2030-09-01 → {day}"):
        followed(pin, after(one, expires=day))
    assert followed(pin, after(one, expires="2031-09-02")) == 2


def test_a_new_name_does_not_get_round_the_serials(pin):
    """The authority gives its nodes a weaker federation under another name, which begins at no serial and no round."""
    followed(pin, first())
    renamed = first(name="clinics-2", noise_multiplier=0.0)
    other = Pin(pin.path.with_name("other.pin"))
    with pytest.raises(Refusal, match=r"'clinics-2' is that of 'clinics', which this node follows; if the site agrees"):
        followed(other, renamed)
    accept_weaker(pin.path.parent, renamed.digest)
    assert followed(other, renamed) == 1
