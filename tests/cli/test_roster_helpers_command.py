"""Helpers on the command line: named, signed and countersigned."""

import pytest

from f2ed.deployment.roster import read_roster


@pytest.fixture
def named(f2ed):
    """Return the command, after a roster of eight clients names server, mixer and judge."""
    f2ed("roster", "new", "roster.json", "--name", "clinics", "--authority", "authority.key")
    clients = [f"c{number}" for number in range(8)]
    for each in (*clients, "server", "mixer", "judge"):
        f2ed("roster", "key", f"{each}.key")
    f2ed("roster", "add", "roster.json", *(f"{each}.pub" for each in clients))
    for role, operator in (("server", "A"), ("mixer", "B"), ("judge", "C")):
        status, out, err = f2ed(
            "roster", "helper", "roster.json", f"{role}.pub", "--role", role, "--operator", operator
        )
        assert (status, err) == (0, "")
    assert "now sign it" in out
    return f2ed


SIGN = ("roster", "sign", "roster.json", "--authority", "authority.key", "--accept", "unpinned-app")


def test_from_keys_to_a_roster_that_verifies(named, tmp_path):
    rule = '{kind = "filter-l2", contamination = 0.2}'
    status, _, _ = named("roster", "helper-settings", "roster.json", "--crowd", 5, "--rule", rule)
    assert status == 0
    status, out, err = named(*SIGN, "--shards", 2, "--clip-norm", 1.0)
    assert status == 0, (status, err)
    status, _, _ = named("roster", "verify", "roster.json", "--authority", "authority.pub")
    assert "has not countersigned it" in status
    for role, said in (("mixer", "the judge has not done so yet"), ("judge", "by both helpers")):
        status, out, _ = named(
            *("roster", "countersign", "roster.json", "--key", f"{role}.key", "--authority", "authority.pub")
        )
        assert status == 0
        assert said in out
    status, out, _ = named("roster", "verify", "roster.json", "--authority", "authority.pub")
    assert status == 0
    assert " mixer  B  " in out
    found = read_roster(tmp_path / "roster.json")
    assert found.helpers.settings.crowd == 5
    assert found.helpers.rule.contamination == 0.2
    # The next serial keeps the helpers, who have to agree again.
    assert named(*SIGN)[0] == 0
    again = read_roster(tmp_path / "roster.json")
    assert again.helpers == found.helpers
    assert not again.countersignatures


def test_a_rule_that_does_not_work_is_refused(named):
    assert "Krum" in named("roster", "helper-settings", "roster.json", "--rule", '{kind = "krum", f = 1}')[0]
    assert "f2ed list estimators" in named("roster", "helper-settings", "roster.json", "--rule", "kram")[0]
    assert "size" in named("roster", "helper-settings", "roster.json", "--size", 1)[0]


def test_only_a_helper_of_a_signed_roster_countersigns(named):
    words = ("roster", "countersign", "roster.json", "--authority", "authority.pub", "--key")
    assert "nobody signed it" in named(*words, "mixer.key")[0]
    assert named(*SIGN, "--shards", 2, "--clip-norm", 1.0)[0] == 0
    assert "not the private key of a helper" in named(*words, "c0.key")[0]
