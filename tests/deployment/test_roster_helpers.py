"""Helpers in the signed roster: who agreed to be one, what is refused, and the terms that follow."""

import msgspec
import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.masked_metrics import MetricRule
from f2ed.deployment.pin import Pin, accept_weaker
from f2ed.deployment.roster import (
    Entry,
    HelperEntry,
    Helpers,
    Roster,
    SignedEncoding,
    acceptance,
    check_countersigned,
    check_helpers,
    countersigned,
    helped_terms,
    helpers_of,
    read_roster,
    revised,
    signed,
    smallest_sum,
    write_roster,
)
from f2ed.deployment.roster.parts import Group
from f2ed.deployment.training_rules import TrainingRules
from f2ed.estimators import Krum
from f2ed.protocol.helpers import HelpersProtocol, check_terms
from f2ed.protocol.primitives.crypto import public_key, sign

AUTHORITY, SERVER, MIXER, JUDGE = (bytes([number]) * 32 for number in (200, 201, 202, 203))
DAY = "2030-06-01"
PARTIES = (
    HelperEntry("judge", "University C", public_key(JUDGE)),
    HelperEntry("mixer", "Hospital B", public_key(MIXER)),
)
HELPERS = Helpers(operator="Hospital A", parties=PARTIES)
SETTINGS = {"shards": 2, "min_crowd": 4, "seed": bytes([8]) * 32}


def draft(helpers=HELPERS, **fields):
    clients = tuple(Entry(client, f"c{client}", public_key(bytes([client + 1]) * 32)) for client in range(8))
    fields = {"server": public_key(SERVER), "encoding": SignedEncoding(clip_norm=1.0)} | fields
    return Roster(name="clinics", authority=public_key(AUTHORITY), clients=clients, helpers=helpers, **fields)


@pytest.fixture(scope="module")
def roster():
    made = signed(draft(), AUTHORITY, **SETTINGS)
    return countersigned(countersigned(made, MIXER), JUDGE)


def after(roster, **changes):
    """Return the next serial, signed by an authority that checks nothing, and countersigned."""
    made = replace(revised(roster, **changes), serial=roster.serial + 1)
    return countersigned(countersigned(replace(made, signature=sign(AUTHORITY, made.digest)), MIXER), JUDGE)


def test_a_roster_with_both_countersignatures_is_followed(roster, tmp_path):
    check_countersigned(roster)
    write_roster(tmp_path / "roster.json", roster)
    assert read_roster(tmp_path / "roster.json") == roster
    assert Pin(tmp_path / "pin").follow([roster], day=DAY) == roster


def test_a_countersignature_changes_no_digest_and_a_roster_without_helpers_has_no_trace_of_them(roster):
    assert replace(roster, countersignatures=msgspec.UNSET).digest == roster.digest
    bare = draft(msgspec.UNSET)
    assert not {"helpers", "countersignatures"} & msgspec.to_builtins(bare).keys()
    check_countersigned(bare)


@pytest.mark.parametrize("role", ["mixer", "judge"])
def test_a_missing_countersignature_is_refused(roster, tmp_path, role):
    left = tuple(each for each in roster.countersignatures if each.role != role)
    with pytest.raises(Refusal, match=f"the {role} of the roster 'clinics' .* has not countersigned it"):
        Pin(tmp_path / "pin").follow([replace(roster, countersignatures=left)], day=DAY)
    assert not (tmp_path / "pin").exists()


@pytest.mark.parametrize("change", ["operator", "role", "roster"])
def test_a_countersignature_of_something_else_is_refused(roster, change):
    judge, mixer = PARTIES
    if change == "operator":
        other = replace(roster, helpers=replace(HELPERS, parties=(judge, replace(mixer, operator="Hospital X"))))
    elif change == "role":
        swapped = (replace(judge, role="mixer"), replace(mixer, role="judge"))
        renamed = tuple(
            replace(each, role="judge" if each.role == "mixer" else "mixer") for each in roster.countersignatures
        )
        other = replace(roster, helpers=replace(HELPERS, parties=swapped), countersignatures=renamed)
    else:
        other = replace(roster, expires="2031-01-01")
    with pytest.raises(Refusal, match=r"the countersignature of the (mixer|judge) is not by the key"):
        check_countersigned(other)


def test_operators_that_are_not_three_are_refused(roster):
    two = tuple(replace(each, operator="hospital a ") if each.role == "mixer" else each for each in PARTIES)
    with pytest.raises(ConfigError, match="three different operators"):
        signed(draft(replace(HELPERS, parties=two)), AUTHORITY, **SETTINGS)
    with pytest.raises(Refusal, match=r"cannot be accepted: .* three different operators"):
        check_countersigned(replace(roster, helpers=replace(HELPERS, parties=two)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"helpers": replace(HELPERS, parties=PARTIES[:1])}, "names no mixer"),
        ({"helpers": replace(HELPERS, operator="")}, "not who runs the server"),
        ({"server": b""}, "not who runs the server"),
        ({"server": public_key(MIXER)}, "three different keys"),
        ({"helpers": replace(HELPERS, rule=Krum(f=1))}, "Krum"),
        ({"encoding": SignedEncoding()}, "without a clip_norm"),
        ({"noise_multiplier": 1.0}, "with a noise_multiplier"),
        ({"helpers": replace(HELPERS, settings=HelpersProtocol(size=5))}, "demand groups of 5"),
        ({"helpers": replace(HELPERS, settings=HelpersProtocol(crowd=9))}, "a crowd of 9 among 8 members"),
        ({"training": TrainingRules(metrics=(MetricRule("accuracy", 0, 1),))}, "with masked metrics"),
    ],
)
def test_what_helpers_cannot_serve_is_not_signed(fields, said):
    with pytest.raises(ConfigError, match=said):
        signed(draft(**fields), AUTHORITY, **SETTINGS)


def test_shards_per_round_and_weights_are_refused(roster):
    with pytest.raises(ConfigError, match="with shards_per_round"):
        check_helpers(replace(roster, shards_per_round=1))
    heavy = (replace(roster.clients[0], weight=2), *roster.clients[1:])
    with pytest.raises(ConfigError, match="different weights"):
        check_helpers(replace(roster, clients=heavy, weight_cap=2))


def test_only_a_signed_roster_is_countersigned_and_only_by_a_helper(roster):
    with pytest.raises(ConfigError, match="is a draft"):
        countersigned(draft(), MIXER)
    with pytest.raises(ConfigError, match="not the private key of a helper"):
        countersigned(roster, SERVER)
    with pytest.raises(Refusal, match="names no helpers"):
        countersigned(replace(roster, helpers=msgspec.UNSET), MIXER)
    with pytest.raises(Refusal, match="names no helpers"):
        helpers_of(draft(msgspec.UNSET))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"helpers": replace(HELPERS, settings=HelpersProtocol(spot=1))}, "weaker than serial 1.*helpers"),
        ({"helpers": replace(HELPERS, operator="Hospital D")}, "weaker than serial 1.*Hospital A.* → .*Hospital D"),
        ({"server": public_key(bytes([9]) * 32)}, "weaker than serial 1.*server"),
    ],
)
def test_other_helpers_wait_until_the_site_agrees(roster, tmp_path, changes, said):
    pin, two = Pin(tmp_path / "state" / "pin"), after(roster, **changes)
    pin.follow([roster], day=DAY)
    with pytest.raises(Refusal, match=said):
        pin.follow([two], day=DAY)
    accept_weaker(pin.path.parent, two.digest)
    assert pin.follow([two], day=DAY) == two


def test_epochs_stay_as_long_as_they_are(roster, tmp_path):
    pin = Pin(tmp_path / "pin")
    pin.follow([roster], day=DAY)
    with pytest.raises(Refusal, match="changes the helpers' epoch from 10 to 1 rounds"):
        pin.follow([after(roster, helpers=replace(HELPERS, settings=HelpersProtocol(epoch=1)))], day=DAY)


def test_the_terms_follow_from_the_roster(roster):
    terms = helped_terms(roster, roster.job(5), 12, coordinates=30)
    check_terms(terms)
    assert terms.policy == roster.digest
    assert (terms.epoch, terms.round, terms.crowd) == (1, 12, 4)
    assert terms.operators == ("Hospital A", "Hospital B", "University C")
    assert terms.keys == tuple(map(public_key, (SERVER, MIXER, JUDGE)))
    assert terms.groups == tuple(sorted(group.members for group in roster.groups))
    acceptance(roster)(terms)
    nested = replace(roster, helpers=replace(HELPERS, settings=HelpersProtocol(guard="nested", size=2)))
    assert helped_terms(nested, "job", 0, coordinates=1).groups == ()


def test_the_smallest_sum_is_the_largest_of_all_demands(roster):
    assert smallest_sum(roster) == 4
    assert smallest_sum(after(roster, min_crowd=6)) == 6
    assert smallest_sum(after(roster, helpers=replace(HELPERS, settings=HelpersProtocol(crowd=7)))) == 7


@pytest.mark.parametrize(
    "changes", [{"crowd": 3}, {"clip_norm": 2.0}, {"operators": ("X", "Hospital B", "University C")}, {"spot": 1}]
)
def test_other_terms_are_refused_by_what_differs(roster, changes):
    terms = replace(helped_terms(roster, roster.job(5), 12, coordinates=30), **changes)
    with pytest.raises(Refusal, match=f"differ from the roster 'clinics' .* in {next(iter(changes))};"):
        acceptance(roster)(terms)


def test_clients_that_wait_are_in_no_set(roster):
    groups = tuple(Group(0, 1, group.members, group.weights) for group in roster.groups[:1])
    assert helped_terms(replace(roster, groups=groups), "job", 0, coordinates=1).members == groups[0].members
