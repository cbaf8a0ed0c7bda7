"""`f2ed certs --operate`: the settings with which `flwr` finds a SuperLink."""

import tomllib

import pytest

from f2ed.cli.certs import certs
from f2ed.core.errors import ConfigError


def test_the_operator_gets_a_home_that_names_and_trusts_the_superlink(tmp_path, capsys):
    certs(tmp_path / "certs", host=("127.0.0.1",), operate="clinics=127.0.0.1:8000")
    home = tmp_path / "certs" / "flwr"
    assert f"export FLWR_HOME={home}" in capsys.readouterr().out
    found = tomllib.loads((home / "config.toml").read_text())["superlink"]
    assert found == {
        "default": "clinics",
        "clinics": {"address": "127.0.0.1:8000", "root-certificates": str(tmp_path / "certs" / "ca.crt")},
    }


@pytest.mark.parametrize(
    ("given", "why"), [("127.0.0.1:8000", "NAME=HOST:PORT"), ("a b=h:1", "NAME=HOST:PORT"), ("a=h", "not an address")]
)
def test_an_address_without_a_name_or_a_port_is_refused_before_anything_is_written(tmp_path, given, why):
    with pytest.raises(ConfigError, match=why):
        certs(tmp_path / "certs", operate=given)
    assert not (tmp_path / "certs").exists()
