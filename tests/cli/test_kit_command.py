"""A site kit: unpacked in an empty folder, its three steps lead to a node that is ready."""

import hashlib
import re
import shlex
import tarfile

import pytest

from f2ed.cli.kit import kit, make, start
from f2ed.cli.roster import add, key, new, sign
from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.certs import server_certificate
from f2ed.deployment.kit import FORMS, Site, bundle, check_roster_name
from f2ed.deployment.roster import read_roster
from tests.deployment.tls_server import answering

SITES = ["hospital_a", "hospital_b", "hospital_c", "hospital_d"]


@pytest.fixture
def authority(tmp_path):
    """Return the folder of an authority with an empty roster and certificates."""
    folder = tmp_path / "authority"
    new(folder / "roster.json", name="clinics", authority=folder / "authority.key")
    server_certificate(folder / "certs", ["127.0.0.1"])
    return folder


@pytest.fixture
def made(authority, tmp_path):
    def make_kits(*sites, superlink="superlink.example.org:8000", **settings):
        given = {"authority": authority / "authority.pub", "ca": authority / "certs" / "ca.crt"} | settings
        make(*sites, federation="clinics", superlink=superlink, out=tmp_path / "kits", **given)
        return tmp_path / "kits"

    return make_kits


def unpacked(bundle_, place):
    with tarfile.open(bundle_) as archive:
        archive.extractall(place, filter="data")
    return place / bundle_.name.removesuffix(".tar.gz")


def steps(folder):
    """Return the commands of the page that are ours, one for each step."""
    return re.findall(r"^```sh\n(f2ed [^\n]+)\n```", (folder / "README.md").read_text(), re.MULTILINE)


def typed(line, folder, *more):
    words = shlex.split(line)
    assert words[:2] == ["f2ed", "kit"]
    return [*words[2:], "--folder", str(folder), *more]


def test_three_steps_lead_from_a_bundle_to_a_node_that_is_ready(authority, made, tmp_path, monkeypatch, capsys):
    tls = server_certificate(tmp_path / "tls", ["127.0.0.1"])
    with answering(tls) as address:
        kits = made(*SITES, superlink=address, ca=tls.ca, form="plain")
        sites = [unpacked(kits / f"{name}.tar.gz", tmp_path / "sites") for name in SITES]
        first, second, third = steps(sites[0])
        for site in sites:
            kit(typed(first, site), result_action="return_value")
        add(authority / "roster.json", [site / f"{site.name}.pub" for site in sites])
        sign(
            authority / "roster.json",
            authority=authority / "authority.key",
            shards=1,
            min_crowd=4,
            accept=["unpinned-app"],
        )
        for site in sites:
            (site / "roster.json").write_bytes((authority / "roster.json").read_bytes())
        capsys.readouterr()
        kit(typed(second, sites[1]), result_action="return_value")
    assert "hospital_b.key is client 1 (hospital_b)" in capsys.readouterr().out
    launcher = pytest.importorskip("f2ed.flower.launcher")
    started = []
    monkeypatch.setattr(launcher, "start", started.append)
    kit(typed(third, sites[1], "--port", "9100"), result_action="return_value")
    (options,) = started
    launcher.check_options(options)
    assert (options.superlink, options.port, options.key.name) == (address, 9100, "hospital_b.key")


@pytest.mark.parametrize("form", FORMS)
def test_a_kit_holds_what_its_page_names_and_nothing_secret(made, tmp_path, form, capsys):
    kits = made("hospital_a", form=form)
    content = (kits / "hospital_a.tar.gz").read_bytes()
    assert f"SHA-256 {hashlib.sha256(content).hexdigest()}" in capsys.readouterr().out
    folder = unpacked(kits / "hospital_a.tar.gz", tmp_path / "site")
    names = {path.name for path in folder.iterdir()}
    assert names >= {"README.md", "site.toml", "authority.pub", "ca.crt"}
    assert not [path for path in folder.iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    page = (folder / "README.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## 1. Make your keys",
        "## 2. Put roster.json into this folder, and check",
        "## 3. Start the node",
    ]
    named = {each for line in re.findall(r"^install -m 0644 (.*)$", page, re.MULTILINE) for each in line.split()[:-1]}
    assert named <= names | {"roster.json"}
    assert {"systemd": "f2ed-supernode.service", "compose": "supernode.yaml", "plain": "ca.crt"}[form] in names
    settings = {"systemd": "supernode.env", "compose": ".env", "plain": "site.toml"}[form]
    assert "superlink.example.org:8000" in (folder / settings).read_text()


def test_the_same_kit_has_the_same_bytes(authority):
    from f2ed.deployment.kit import Parts

    parts = Parts((authority / "authority.pub").read_bytes(), b"-----BEGIN CERTIFICATE-----")
    one, other = (bundle(Site("a", "clinics", "host:1"), parts) for _ in range(2))
    assert one == other


def test_a_roster_that_is_signed_already_comes_with_the_kit(authority, made, tmp_path):
    roster = authority / "roster.json"
    with pytest.raises(PeerError, match="is a draft"):
        made("hospital_a", roster=roster)
    for name in SITES:
        key(tmp_path / f"{name}.key")
    add(roster, [tmp_path / f"{name}.pub" for name in SITES])
    sign(roster, authority=authority / "authority.key", shards=1, min_crowd=4, accept=["unpinned-app"])
    folder = unpacked(made("hospital_a", roster=roster) / "hospital_a.tar.gz", tmp_path)
    assert (folder / "roster.json").read_bytes() == roster.read_bytes()
    with pytest.raises(ConfigError, match="the kit is for 'banks'"):
        check_roster_name(read_roster(roster), "banks")


@pytest.mark.parametrize(
    ("sites", "settings", "why"),
    [
        ([], {}, "no site given"),
        (["../evil"], {}, "is not a name for a site"),
        (["hospital_a"], {"superlink": "nowhere"}, "is not an address"),
        (["hospital_a"], {"authority": "authority.key"}, "is not a public key"),
        (["hospital_a"], {"ca": "certs/server.key"}, "is not a certificate alone"),
        (["hospital_a"], {"ca": "none.crt"}, "cannot be read"),
    ],
)
def test_what_does_not_belong_into_a_kit_is_refused(authority, made, sites, settings, why):
    paths = {name: authority / to if name in ("authority", "ca") else to for name, to in settings.items()}
    with pytest.raises(ConfigError, match=why):
        made(*sites, **paths)


def test_keys_are_not_made_twice(made, tmp_path):
    folder = unpacked(made("hospital_a") / "hospital_a.tar.gz", tmp_path)
    kit(["keys", "--folder", str(folder)], result_action="return_value")
    before = (folder / "hospital_a.key").read_bytes()
    with pytest.raises(ConfigError, match="is another participant"):
        kit(["keys", "--folder", str(folder)], result_action="return_value")
    assert (folder / "hospital_a.key").read_bytes() == before


def test_a_folder_that_is_no_kit_and_a_damaged_one_are_named(tmp_path):
    with pytest.raises(ConfigError, match="is not an unpacked kit"):
        start(folder=tmp_path)
    (tmp_path / "site.toml").write_text('name = "../x"\nfederation = "f"\nsuperlink = "a:1"\n')
    with pytest.raises(ConfigError, match="cannot be used"):
        start(folder=tmp_path)
