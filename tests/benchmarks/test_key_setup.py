"""The benchmark of an agreement on keys runs with this version of the simulation."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def key_setup(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    module = importlib.import_module("key_setup")
    monkeypatch.setattr(module, "CLIENTS", {4: 8})
    monkeypatch.setattr(module, "TIMES", 1)
    return module


def test_both_agreements_are_measured(key_setup):
    found = {kind: key_setup.measured(4, protocol) for kind, protocol in key_setup.kinds()}
    assert found.keys() == {"x25519+mlkem768", "x25519"}
    assert min(min(times) for times in found.values()) > 0
