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
