"""`f2ed doctor`: each fault is named in words, with what to do, and nothing is changed."""

import os
import socket
import tomllib
from pathlib import Path

import msgspec
import pytest

from f2ed.cli.doctor import doctor
from f2ed.core.errors import ConfigError
from f2ed.deployment.certs import node_key, server_certificate
from f2ed.deployment.doctor import NodeFiles, ServerFiles, healthy, node_checks, server_checks
from f2ed.deployment.doctor.connection import contact
from f2ed.deployment.doctor.machine import NEEDED, clock_check, folder_check, runner_check, version_check
from f2ed.deployment.keyfiles import write_pair
from f2ed.deployment.roster import Entry, Roster, signed, write_roster
from f2ed.deployment.run_lock import sole_run
from f2ed.protocol.secagg import public_key
from tests.deployment.tls_server import answering, issued

ROOT = Path(__file__).parents[2]
NOBODY = "127.0.0.1:1"


@pytest.fixture
def site(tmp_path):
    """Return the files of a node in good order, with certificates of its server; nobody answers there."""
    authority, keys = os.urandom(32), [os.urandom(32) for _ in range(4)]
    write_pair(tmp_path / "authority.key", authority)
    write_pair(tmp_path / "mine.key", keys[2])
    node_key(tmp_path / "node")
    server_certificate(tmp_path / "certs", ["127.0.0.1"])
    entries = tuple(Entry(client, f"client_{client}", public_key(key)) for client, key in enumerate(keys))
    draft = Roster(name="clinics", authority=public_key(authority), clients=entries, accepted=("unpinned-app",))

    def sign(**settings):
        draft_ = msgspec.structs.replace(draft, **settings)
        made = signed(draft_, authority, shards=1, min_crowd=4, accepted=draft_.accepted, seed=bytes(32))
        write_roster(tmp_path / "roster.json", made)

    sign()
    files = NodeFiles(
        tmp_path / "roster.json",
        tmp_path / "authority.pub",
        tmp_path / "mine.key",
        NOBODY,
        tmp_path / "certs" / "ca.crt",
        connection_key=tmp_path / "node",
    )
    return type("Site", (), {"files": files, "sign": staticmethod(sign), "folder": tmp_path})


def found(checks):
    return {check.name: check for check in checks}


def tls_of(folder):
    from f2ed.deployment.certs import Tls

    return Tls(folder / "ca.crt", folder / "server.pem", folder / "server.key")


def test_a_node_in_good_order_is_found_healthy_and_unchanged(site):
    before = sorted(site.folder.rglob("*"))
    with answering(tls_of(site.folder / "certs")) as address:
        checks = node_checks(site.files._replace(superlink=address))
    assert healthy(checks)
    assert {check.name for check in checks if check.status != "ok"} == {"apps"}
    assert found(checks)["identity key"].found.endswith("is client 2 (client_2)")
    assert "within 1 s" in found(checks)["clock"].found
    assert sorted(site.folder.rglob("*")) == before


@pytest.mark.parametrize(("ahead", "words"), [(-3600, "3600 s ahead of"), (3600, "3600 s behind")])
def test_a_wrong_clock_is_named_by_the_difference(site, ahead, words):
    with answering(tls_of(site.folder / "certs"), ahead=ahead) as address:
        check = found(node_checks(site.files._replace(superlink=address)))["clock"]
    assert check.status == "failed"
    assert words in check.found.replace("3599", "3600")
    assert "timedatectl" in check.remedy


def test_a_server_that_tells_no_time_leaves_the_clock_open(site):
    with answering(tls_of(site.folder / "certs"), dated=False) as address:
        assert found(node_checks(site.files._replace(superlink=address)))["clock"].status == "warning"


@pytest.mark.parametrize(
    ("issue", "words"),
    [
        ({"days_ago": 40}, "the certificate expired on"),
        ({"days_ago": -3}, "is not valid yet"),
        ({"host": "elsewhere.example.org"}, "is for other names than 127.0.0.1"),
    ],
)
def test_why_a_certificate_is_not_trusted_is_said(tmp_path, monkeypatch, issue, words):
    tls = issued(tmp_path, monkeypatch, **issue)
    with answering(tls) as address:
        reading = contact(address, tls.ca)
    assert words in reading.problem
    assert reading.remedy
    assert reading.reached


def test_a_wrong_clock_behind_an_expired_certificate_is_told(tmp_path, monkeypatch):
    tls = issued(tmp_path, monkeypatch, days_ago=40)
    with answering(tls, ahead=-35 * 86400) as address:
        assert "the clocks differ, too" in contact(address, tls.ca).problem


def test_a_certificate_of_another_ca_is_suspect(tmp_path):
    mine, other = (server_certificate(tmp_path / name, ["127.0.0.1"]) for name in ("mine", "other"))
    with answering(other) as address:
        reading = contact(address, mine.ca)
    assert "not of the CA that was given" in reading.problem
    assert "SUSPECT" in reading.remedy


def test_a_certificate_that_expires_soon_is_a_warning(tmp_path, monkeypatch, site):
    tls = issued(tmp_path / "soon", monkeypatch, days=5)
    with answering(tls) as address:
        checks = found(node_checks(site.files._replace(superlink=address, ca=tls.ca)))
    for name in ("certificate of the SuperLink", "CA"):
        assert checks[name].status == "warning"
        assert "expires in 4 days" in checks[name].found


def test_what_does_not_answer_is_told_apart(tmp_path, monkeypatch):
    ca = server_certificate(tmp_path / "certs", ["127.0.0.1"]).ca
    assert "cannot be reached" in contact(NOBODY, ca).problem

    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    with answering() as plain:
        assert "not by TLS" in contact(plain, ca).problem
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert "did not answer within 0.1 s" in contact(address, ca, timeout=0.1).problem
    monkeypatch.setattr(socket, "create_connection", unknown)
    assert "is not known here" in contact("nowhere.invalid:1", ca).problem
    assert "cannot be used" in contact(NOBODY, tmp_path / "none.crt").problem


@pytest.mark.parametrize("address", ["here", "here:", ":1", "here:99999", "here:x"])
def test_an_address_without_a_port_is_refused(tmp_path, address):
    with pytest.raises(ConfigError, match="is not an address"):
        contact(address, tmp_path)


def broken_key(site):
    site.files.key.chmod(0o644)


def other_key(site):
    site.files.key.unlink()
    site.files.key.with_suffix(".pub").unlink()
    write_pair(site.files.key, os.urandom(32))


def damaged_roster(site):
    text = site.files.roster.read_text()
    site.files.roster.write_text(text.replace('"min_crowd": 4', '"min_crowd": 1'))


def no_app(site):
    site.sign(accepted=())


def expired(site):
    site.sign(expires="2020-01-01")


def open_connection_key(site):
    site.files.connection_key.chmod(0o640)


def no_connection_key(site):
    site.files.connection_key.write_bytes(b"nothing")
    site.files.connection_key.chmod(0o600)


def state_is_a_file(site):
    site.files.key.with_suffix(".state").write_text("")


def damaged_rounds(site):
    from f2ed.deployment.roster import read_roster

    folder = site.files.key.with_suffix(".state")
    folder.mkdir()
    (folder / f"{read_roster(site.files.roster).lineage}.rounds").write_text("?")


def damaged_pin(site):
    from f2ed.deployment.roster import read_roster

    folder = site.files.key.with_suffix(".state")
    folder.mkdir()
    (folder / f"{read_roster(site.files.roster).lineage}.pin").write_text("?")


def no_ca(site):
    site.files.ca.write_text("nothing")


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        (broken_key, "identity key", "may be read by others"),
        (other_key, "identity key", "is not on the roster"),
        (damaged_roster, "roster", "was changed after it was signed"),
        (expired, "roster", "expired on 2020-01-01"),
        (no_app, "apps", "approves no app"),
        (open_connection_key, "connection key", "may be read by others"),
        (no_connection_key, "connection key", "is not an unencrypted OpenSSH key"),
        (state_is_a_file, "state", "ot a directory"),
        (damaged_rounds, "rounds", "the last round"),
        (damaged_pin, "pinned serial", "the roster that this node follows"),
        (no_ca, "CA", "is not a certificate"),
    ],
)
def test_a_fault_of_a_node_is_named_with_what_to_do(site, fault, name, words):
    fault(site)
    check = found(node_checks(site.files))[name]
    assert check.status == "failed"
    assert words in check.found
    assert check.remedy


def test_a_roster_that_expires_soon_is_a_warning(site):
    from datetime import UTC, datetime, timedelta

    site.sign(expires=(datetime.now(UTC).date() + timedelta(3)).isoformat())
    check = found(node_checks(site.files))["roster"]
    assert (check.status, "expires in 3 days" in check.found) == ("warning", True)


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"python": "3.11.2", "cryptography": "48.0.0", "flwr": ""}, "flwr missing"),
        ({"python": "3.11.2", "cryptography": "48.0.0", "flwr": "1.42.0"}, "flwr 1.41 and below 1.42 is needed"),
        ({"python": "3.11.2", "cryptography": "47.0.0", "flwr": "1.41.0"}, "cryptography 48.0 is needed"),
        ({"python": "3.10.9", "cryptography": "48.0.0", "flwr": "1.41.0"}, "python 3.11 is needed"),
    ],
)
def test_a_version_that_does_not_work_is_named(versions, words):
    check = version_check(versions)
    assert (check.status, words in check.found) == ("failed", True)


def test_the_versions_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={'.'.join(map(str, NEEDED['python'][0]))}"
    assert f"cryptography>={NEEDED['cryptography'][0][0]}" in project["dependencies"]
    (flower,) = [each for each in project["optional-dependencies"]["flower"] if each.startswith("flwr")]
    assert flower == "flwr>={}.{},<{}.{}".format(*NEEDED["flwr"][0], *NEEDED["flwr"][1])


def test_little_space_is_a_warning_and_none_a_failure(tmp_path, monkeypatch):
    for free, status in ((50 << 20, "failed"), (500 << 20, "warning"), (5 << 30, "ok")):
        usage = type("Usage", (), {"free": free})
        monkeypatch.setattr("f2ed.deployment.doctor.machine.shutil.disk_usage", lambda _, usage=usage: usage)
        assert folder_check("state", tmp_path / "new").status == status
    assert folder_check("database", tmp_path, growing=6 << 30).status == "warning"


def test_a_server_asks_systemd_for_its_clock(tmp_path, monkeypatch):
    monkeypatch.setattr("f2ed.deployment.doctor.machine.shutil.which", lambda _: None)
    assert clock_check().status == "warning"
    for answer, status in (("yes", "ok"), ("no", "warning")):
        script = tmp_path / answer
        script.write_text(f"#!/bin/sh\necho {answer}\n")
        script.chmod(0o700)
        monkeypatch.setattr("f2ed.deployment.doctor.machine.shutil.which", lambda _, script=script: str(script))
        assert clock_check().status == status


@pytest.fixture
def server(site):
    certs = site.folder / "certs"
    return ServerFiles(
        site.files.roster, site.files.authority, certs / "ca.crt", certs / "server.pem", certs / "server.key"
    )


def test_a_server_in_good_order_is_found_healthy(server, site):
    (site.folder / "superlink.db").write_bytes(bytes(2 << 20))
    with answering(tls_of(site.folder / "certs")) as address, sole_run([site.folder / "run.jsonl"], 9) as note:
        given = server._replace(superlink=address, proxy=address, database=site.folder / "superlink.db")
        given = given._replace(records=site.folder / "run.jsonl", checkpoint=site.folder / "model")
        checks = server_checks(given)
        note(2, "0 of 1 shards can open")
        waiting = found(server_checks(given))["run"]
    assert healthy(checks)
    assert "2 MiB are used" in found(checks)["database"].found
    assert {"SuperLink: reachability", "proxy: certificate"} <= found(checks).keys()
    assert (waiting.status, "0 of 1 shards can open" in waiting.found) == ("warning", True)


def test_the_faults_of_a_server_are_named(server, site, tmp_path):
    other = server_certificate(tmp_path / "other", ["127.0.0.1"])
    assert "does not belong to" in found(server_checks(server._replace(key=other.key)))["TLS key"].found
    check = found(server_checks(server._replace(ca=other.ca)))["TLS key"]
    assert "is not of the CA" in check.found
    server.key.chmod(0o644)
    assert "may be read by others" in found(server_checks(server))["TLS key"].found
    write_pair(tmp_path / "log.key", os.urandom(32))
    check = found(server_checks(server._replace(log_key=tmp_path / "log.key")))["log key"]
    assert "is not the key that the roster names" in check.found
    site.sign(server=bytes(32))
    assert "none was given" in found(server_checks(server))["log key"].found


def test_the_command_prints_a_line_for_each_check_and_fails(site, capsys):
    words = ["--roster", site.files.roster, "--authority", site.files.authority, "--key", site.files.key]
    words += ["--superlink", NOBODY, "--root-certificates", site.files.ca]
    with pytest.raises(SystemExit) as ended:
        doctor(["node", *map(str, words)])
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("failed")]
    assert "reachability" in line
    assert "→ start it" in line
    with pytest.raises(SystemExit):
        doctor(["node", *map(str, words), "--json"])
    printed = msgspec.json.decode(capsys.readouterr().out)
    assert printed["healthy"] is False
    assert len(printed["checks"]) == len(lines)


RUNNER = "python flower-superexec --runtime-api-address 127.0.0.1:8001 --parent-pid 7"
LINK = "python flower-superlink --host 127.0.0.1 --port 8001"


@pytest.mark.parametrize(
    ("commands", "status", "words"),
    [
        ([LINK, RUNNER], "ok", "flower-superexec serves port 8001"),
        ([LINK, RUNNER.replace("8001", "80011")], "failed", "runs are accepted, stay pending and never begin"),
        ([LINK.replace("8001", "80011")], "ok", "look where it runs"),
    ],
)
def test_a_superlink_that_can_begin_no_run_is_named(commands, status, words):
    check = runner_check("127.0.0.1:8001", commands)
    assert check.status == status
    assert words in check.found
