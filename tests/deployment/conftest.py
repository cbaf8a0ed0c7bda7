"""Real processes, which take minutes: these tests run when they are asked for, as `make test-deployment` does."""

import importlib.util
import warnings

import pytest

if importlib.util.find_spec("flwr") is not None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flwr.clientapp
        import flwr.serverapp  # noqa: F401


def pytest_ignore_collect(config):
    """Leave this folder out of a run that does not name it."""
    return None if any("deployment" in argument for argument in config.args) else True


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """Start a server and nodes for the tests of one file."""
    from federation import NODES

    from f2ed.flower.local import Deployment

    folder = tmp_path_factory.mktemp("deployment")
    with Deployment(folder, nodes=NODES, shards=2, crowd=3, strangers=1, spares=5) as running:
        yield running


@pytest.fixture(scope="module")
def shards(deployment):
    """Return who is in which shard."""
    return deployment.roster.plan(0).shards
