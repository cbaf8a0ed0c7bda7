"""`f2ed roster sign --app` and `f2ed app hash`: which code nodes run is signed."""

import hashlib

import pytest

from f2ed import ConfigError
from f2ed.cli.app_hash import hash_
from f2ed.cli.app_options import AppOptions
from f2ed.cli.roster import add, key, new, sign, verify
from f2ed.deployment.roster import read_roster
from tests.deployment.test_apps import PROJECT, bundle


@pytest.fixture
def begun(tmp_path):
    new(tmp_path / "roster.json", name="clinics", authority=tmp_path / "authority.key")
    for client in range(4):
        key(tmp_path / f"clinic_{client}.key")
    add(tmp_path / "roster.json", [tmp_path / f"clinic_{client}.pub" for client in range(4)])
    (tmp_path / "one.fab").write_bytes(bundle())
    (tmp_path / "two.fab").write_bytes(bundle(PROJECT.replace("2.1.0", "2.2.0")))
    return tmp_path


def close(folder, *, app=(), remove=(), **settings):
    options = AppOptions([folder / name for name in app], list(remove))
    sign(folder / "roster.json", authority=folder / "authority.key", shards=1, apps=options, **settings)
    return read_roster(folder / "roster.json")


def test_the_hash_that_is_printed_is_the_one_that_is_signed(begun, capsys):
    hash_(begun / "one.fab")
    printed = capsys.readouterr().out.split()[0]
    assert printed == hashlib.sha256(bundle()).hexdigest()
    assert [app.sha256.hex() for app in close(begun, app=["one.fab"]).apps] == [printed]
    assert f"+ app clinics/scans 2.1.0  {printed}" in capsys.readouterr().out
    verify(begun / "roster.json", authority=begun / "authority.pub")
    assert f"app  clinics/scans 2.1.0  {printed}" in capsys.readouterr().out


def test_a_roster_for_no_app_is_signed_only_by_the_name_of_the_risk(begun):
    with pytest.raises(ConfigError, match="the server could run any code on every node"):
        close(begun)
    assert close(begun, accept=["unpinned-app"]).apps == ()


def test_approved_apps_stay_until_they_are_removed(begun, capsys):
    close(begun, app=["one.fab"])
    names = [app.name for app in close(begun, app=["two.fab"]).apps]
    assert names == ["clinics/scans 2.1.0", "clinics/scans 2.2.0"]
    assert len(close(begun).apps) == 2
    capsys.readouterr()
    assert [app.name for app in close(begun, remove=["clinics/scans 2.1.0"]).apps] == names[1:]
    assert "- app clinics/scans 2.1.0" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="the server could run any code"):
        close(begun, remove=["clinics/scans 2.2.0"])


def test_the_apps_own_settings_are_signed_with_it(begun):
    rules = close(begun, app=["one.fab"]).training
    assert {rule.name: rule.values for rule in rules.run_config} == {"rounds": (3,), "optimizer.lr": (0.1,)}
    assert not rules.any_run_setting


def test_apps_are_not_added_to_a_roster_that_was_changed_after_it_was_signed(begun):
    close(begun, app=["one.fab"])
    path = begun / "roster.json"
    path.write_text(path.read_text().replace("clinic_3", "stranger"))
    with pytest.raises(ConfigError, match="was changed after it was signed"):
        close(begun, app=["two.fab"])


def test_what_cannot_be_read_is_named(begun):
    with pytest.raises(ConfigError, match=r"gone\.fab cannot be read"):
        close(begun, app=["gone.fab"])
