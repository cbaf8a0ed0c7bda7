"""What the authority signs about an app."""

import hashlib
import io
import zipfile

import pytest

from f2ed import ConfigError
from f2ed.core.errors import Refusal
from f2ed.deployment.apps import app_rules, change_apps, check_app, describe
from f2ed.deployment.roster import App, Roster, TrainingRules
from f2ed.deployment.rule_text import merged_rules

PROJECT = """
[project]
name = "scans"
version = "2.1.0"
[tool.flwr.app]
publisher = "clinics"
[tool.flwr.app.config]
rounds = 3
f2ed-roster = ""
[tool.flwr.app.config.optimizer]
lr = 0.1
"""


def bundle(project=PROJECT, name="pyproject.toml"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, project)
    return file.getvalue()


def apps(*names):
    return tuple(App(hashlib.sha256(name.encode()).digest(), name) for name in names)


def test_a_bundle_is_described_by_its_hash_its_name_and_its_own_settings():
    found = describe(bundle())
    assert found.app == App(hashlib.sha256(bundle()).digest(), "clinics/scans 2.1.0")
    assert found.run_config == {"rounds": 3, "f2ed-roster": "", "optimizer.lr": 0.1}


@pytest.mark.parametrize(
    "content", [b"", b"PK", bundle(name="other.toml"), bundle("["), bundle("[project]\n"), bundle("tool = 3\n")]
)
def test_what_is_no_bundle_is_refused(content):
    with pytest.raises(ConfigError, match="is not a Flower app bundle"):
        describe(content)


def test_apps_are_added_and_removed_by_name_or_by_hash():
    one, two = apps("one", "two")
    assert change_apps([one], [two], []) == (one, two)
    assert change_apps([one], [one], []) == (one,)
    assert change_apps([one, two], [], ["one"]) == (two,)
    assert change_apps([one, two], [], [two.sha256.hex()[:12]]) == (one,)
    for unknown in ("three", one.sha256.hex()[:4]):
        with pytest.raises(ConfigError, match=r"there are: one \("):
            change_apps([one], [], [unknown])


def test_an_app_that_is_not_on_the_roster_is_refused_by_name():
    one, two = apps("one", "two")
    roster = Roster(name="clinics", authority=bytes(32), apps=(one,))
    check_app(roster, one.sha256)
    with pytest.raises(Refusal, match=f"{two.sha256.hex()} is not approved.*approves one"):
        check_app(roster, two.sha256)


@pytest.mark.parametrize(("some", "accepted"), [((), ()), ((), ("leak",)), (("one",), ("unpinned-app",))])
def test_no_app_is_approved_by_an_empty_list_or_by_a_risk_beside_a_list(some, accepted):
    roster = Roster(name="clinics", authority=bytes(32), apps=apps(*some), accepted=accepted)
    with pytest.raises(Refusal, match="is not approved"):
        check_app(roster, bytes(32))


def test_the_settings_of_an_app_become_exact_rules():
    rules = app_rules(TrainingRules(), [describe(bundle()).run_config])
    rules.check_run_config({"rounds": 3, "optimizer.lr": 0.1, "f2ed-roster": "anything"})
    for wrong in ({"rounds": 4, "optimizer.lr": 0.1}, {"rounds": 3, "optimizer.lr": 9.0}, {"rounds": 3}):
        with pytest.raises(Refusal):
            rules.check_run_config(wrong)


def test_a_rule_that_allows_what_the_app_sets_stays_as_it_was_signed():
    before = TrainingRules(run_config=merged_rules((), ["lr=float:0.0..1.0", "epochs=int:7", "gone=str"]))
    rules = app_rules(before, [{"lr": 0.5, "epochs": 2}])
    assert {rule.name: str(rule) for rule in rules.run_config} == {"lr": "float:0.0..1.0", "epochs": "int:2"}


def test_apps_that_share_their_settings_may_differ_in_the_values():
    rules = app_rules(TrainingRules(), [{"lr": 0.5}, {"lr": 0.1}])
    assert [str(rule) for rule in rules.run_config] == ["float:0.5,0.1"]
    with pytest.raises(ValueError, match="one app has the run setting 'epochs'"):
        app_rules(TrainingRules(), [{"lr": 0.5}, {"lr": 0.1, "epochs": 1}])
