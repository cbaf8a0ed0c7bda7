"""The authority's laptop: `f2ed roster` and `f2ed certs` with the extra `cli` alone."""

import json
import subprocess
import sys

import pytest

from tests.deployment.test_apps import bundle

ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("flwr", "torch", "sklearn", "jinja2", "plotly", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from f2ed.cli import main
sys.argv[0] = "f2ed"
main()
"""


def f2ed(*words, cwd, check=True):
    command = [sys.executable, "-c", ALONE, *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=check)


def test_a_roster_is_made_signed_and_verified_without_flower(tmp_path):
    for name in ("a", "b", "c", "d"):
        f2ed("roster", "key", f"{name}.key", cwd=tmp_path)
    f2ed("roster", "new", "roster.json", "--name", "clinics", "--authority", "authority.key", cwd=tmp_path)
    f2ed("roster", "add", "roster.json", "a.pub", "b.pub", "c.pub", "d.pub", cwd=tmp_path)
    (tmp_path / "scans.fab").write_bytes(bundle())
    f2ed("roster", "sign", "roster.json", "--authority", "authority.key", "--app", "scans.fab", cwd=tmp_path)
    verified = f2ed("roster", "verify", "roster.json", "--authority", "authority.pub", "--json", cwd=tmp_path)
    assert [client["name"] for client in json.loads(verified.stdout)["clients"]] == ["a", "b", "c", "d"]


def test_certificates_are_made_without_flower(tmp_path):
    f2ed("certs", "certs", "--nodes", "1", cwd=tmp_path)
    assert {path.name for path in (tmp_path / "certs").iterdir()} >= {"ca.crt", "server.pem", "server.key", "node_0"}


def test_what_needs_flower_names_the_extra(tmp_path):
    ended = f2ed("up", "app", cwd=tmp_path, check=False)
    assert ended.returncode == 1
    assert "pip install 'f2ed[flower]'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("module", ["identity", "state_store", "preflight", "roster", "keyfiles", "certs"])
def test_the_deployment_package_needs_no_flower(module):
    block = ALONE.partition("from f2ed.cli")[0]
    subprocess.run([sys.executable, "-c", f"{block}\nimport f2ed.deployment.{module}"], check=True)
