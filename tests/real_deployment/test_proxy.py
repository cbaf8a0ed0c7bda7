"""The shipped nginx file: nodes and the operator are let in, and nobody else, by no spelling."""

import subprocess

import pytest

from f2ed.deployment.certs import operator_certificate, server_certificate
from tests.real_deployment.federation import APP, Federation
from tests.real_deployment.proxied import Proxied, configured, nginx

pytestmark = pytest.mark.skipif(nginx() is None, reason="nginx is not installed: apt install nginx-light")

SHUT = [
    *("POST /v1/control/list-runs", "POST /v1/control/start-run", "POST /v1/runtime/acquire-task"),
    *("GET /docs", "GET /openapi.json", "GET /health", "GET /", "OPTIONS *"),
    *("POST /v1/fleet/register-node", "POST /v1/fleet/unregister-node"),
    *("GET /v1/fleet/get-run", "PUT /v1/fleet/get-run", "post /v1/fleet/get-run", "POST /V1/FLEET/get-run"),
    *("POST /v1/fleet/get-run/", "POST /v1/fleet/get-run?", "POST /v1/fleet/get-run?/v1/control/list-runs"),
]
SPELLINGS = [
    "POST /v1/fleet/../control/list-runs",
    "POST /v1/fleet/get-run/../../control/list-runs",
    "POST /v1/fleet/./get-run",
    "POST /v1/fleet/%2e%2e/control/list-runs",
    "POST /v1/fleet%2f..%2fcontrol/list-runs",
    "POST /v1/%63ontrol/list-runs",
    "POST /v1/control%2flist-runs",
    "POST //v1/control/list-runs",
    "POST /v1//control/list-runs",
    "POST /v1/fleet/get-run#/../../control/list-runs",
    "POST /v1/fleet/get-run%00",
    "POST /v1/fleet/get-run%0a",
    "POST /v1/fleet/get-run;/../../control/list-runs",
    "POST https://127.0.0.1/v1/control/list-runs",
    "POST /v1\\control\\list-runs",
    "POST v1/control/list-runs",
]
RUNTIME = "POST /v1/runtime/acquire-task"
LIST = "POST /v1/control/list-runs"
NODE = "POST /v1/fleet/pull-messages"


def test_nginx_finds_nothing_wrong_with_the_shipped_file(tmp_path):
    server_certificate(tmp_path / "certs", ["127.0.0.1"])
    operator_certificate(tmp_path / "certs")
    path = configured(tmp_path, tmp_path / "certs", superlink=8001, nodes=28000, operators=28443)
    checked = subprocess.run([nginx(), "-t", "-c", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "warn" not in checked.stderr


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxied")
    with Proxied(folder, nodes=3, shards=1, min_crowd=3, app=APP) as running:
        yield running


def test_a_round_completes_through_the_proxy(deployment):
    run = Federation(deployment, "through").begin().ready()
    run.ask()
    record = run.result()
    run.end()
    assert record.crowd == 3
    assert run.equals_the_survivors([range(3)])


def test_without_the_proxy_the_superlink_lets_anybody_in(deployment):
    """Which is why it listens on loopback alone."""
    assert deployment.ask(deployment.port, LIST) == [200]
    assert deployment.ask(deployment.port, RUNTIME) == [200]
    assert deployment.ask(deployment.port, "POST /v1/%63ontrol/list-runs") == [200]


@pytest.mark.parametrize("line", SHUT + SPELLINGS)
def test_a_stranger_reaches_no_other_route_by_any_spelling(deployment, line):
    (status,) = deployment.ask(deployment.nodes_port, line)
    assert status in {400, 403, 405}
    (status,) = deployment.ask(deployment.operators_port, line)
    assert status == 400, "no certificate"


def test_a_stranger_on_a_nodes_route_is_refused_by_flower(deployment):
    assert deployment.ask(deployment.nodes_port, NODE) == [401]


def test_a_request_hidden_in_another_is_not_forwarded(deployment):
    hidden = b"0\r\n\r\nPOST /v1/control/list-runs HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
    both = f"content-length: {len(hidden)}\r\ntransfer-encoding: chunked"
    statuses = deployment.ask(deployment.nodes_port, NODE, more=both, body=hidden)
    assert 200 not in statuses
    assert set(statuses) <= {400, 401, 403}


def test_the_operators_certificate_opens_the_control_routes_and_nothing_else(deployment):
    mine = deployment.operator
    assert deployment.ask(deployment.operators_port, LIST, certificate=mine) == [200]
    assert deployment.ask(deployment.operators_port, RUNTIME, certificate=mine) == [403]
    assert deployment.ask(deployment.operators_port, NODE, certificate=mine) == [403]
    assert deployment.ask(deployment.nodes_port, LIST, certificate=mine) == [403]


def test_a_certificate_of_another_ca_opens_nothing(deployment, tmp_path):
    for foreign in (operator_certificate(tmp_path), deployment.tls):
        assert deployment.ask(deployment.operators_port, LIST, certificate=foreign) == [400]


def test_a_body_that_is_too_large_is_not_read(deployment):
    (status,) = deployment.ask(deployment.nodes_port, NODE, more="content-length: 1000000000")
    assert status == 413
