"""Flower is loaded here, with its dependencies' own deprecations out of the way: ours are still errors."""

import importlib.util
import os
import warnings

import pytest

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flwr.clientapp
        import flwr.serverapp  # noqa: F401


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """Do not wait for the disk: no test pulls the plug."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(autouse=True)
def unchanged_flower(monkeypatch):
    """Put back what a test replaces inside Flower."""
    from flwr.supercore import telemetry
    from flwr.supercore.exit import exit as flower_exit
    from flwr.supernode import fleet_http_client, start_client_internal

    for place, name in (
        (start_client_internal, "FAB_VERIFICATION_ERROR"),
        (start_client_internal, "http_request_response"),
        (fleet_http_client.FleetHttpClient, "__init__"),
        (flower_exit, "EXIT_CODE_HELP"),
        (start_client_internal, "_pull_and_store_message"),
        (start_client_internal, "_push_messages"),
        (telemetry, "FLWR_TELEMETRY_ENABLED"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))


@pytest.fixture
def simulated(monkeypatch):
    """Let nodes run as if in Flower's simulation engine."""
    from f2ed.flower import context

    monkeypatch.setattr(context, "_in_simulation", lambda: True)


@pytest.fixture
def federation(tmp_path):
    """Return a function that makes a grid of real nodes."""
    from tests.flower.fake_grid import FakeGrid, Node, real_roster, user_app

    def make(count=6, shards=2, *, run_id=7, min_crowd=3, signed=None, fields=None, **app):
        if not (tmp_path / "roster.json").exists():
            make.roster, make.settings = real_roster(
                tmp_path, count, shards=shards, min_crowd=min_crowd, fields=fields, **(signed or {})
            )
        nodes = [Node(client, user_app(**app), make.settings[client]) for client in range(count)]
        return FakeGrid(nodes, run_id), nodes, make.roster

    return make
