"""The ride of an update is as the architecture page tells it: few files, one way, the same for both drivers."""

import importlib.util
import re
import warnings

import numpy as np
import pytest

from f2ed import FilterL2
from f2ed.simulation import Simulation, experiment
from tests.ride import ROOT, Tracer, layers, upward
from tests.simulation.small_run import SMALL

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST = 34
"""Files of ours in one ride."""
SEAMS = {
    "simulation": {
        ("protocol/aggregation/conversation.py", "simulation/transport.py"),
        ("protocol/secagg/member.py", "simulation/transport.py"),
    },
    "flower": {
        ("protocol/aggregation/conversation.py", "flower/transport.py"),
        ("protocol/secagg/member.py", "deployment/node_step.py"),
        ("deployment/node_step.py", "flower/client_mod.py"),
    },
}
"""Functions that the driver hands down: the exchange of messages, and a client's update when it is wanted."""


def documented(heading):
    section = re.search(rf"^### {heading}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(r"^\| `([\w/]+\.py)` \|", section[1], re.MULTILINE)


def simulated(**settings):
    """Trace the second round of a run, when the keys of the epoch are there."""
    simulation = Simulation(experiment(SMALL | {"estimator": "filter-l2"} | settings), workers=1)
    state, _ = simulation.step(simulation.start())
    with Tracer(simulation.header.dimension) as tracer:
        simulation.step(state)
    return tracer.ride()


@pytest.fixture(scope="module")
def simulation():
    return simulated(model={"kind": "mlp", "hidden": [50]})


@pytest.fixture(scope="module")
def flower(tmp_path_factory):
    if importlib.util.find_spec("flwr") is None:
        pytest.skip("needs the extra flower")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tests.flower.conftest  # noqa: F401  loads flwr
    from f2ed.flower import F2ed
    from tests.flower import fake_grid

    size = 4003
    steps = {client: np.random.default_rng(client).normal(0, 0.01, size).astype(np.float32) for client in range(6)}
    roster, settings = fake_grid.real_roster(tmp_path_factory.mktemp("roster"), 6, shards=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_grid, "change", lambda client, _round: steps[client])
        trained = []

        def training(*_):
            """Wait until the last client trains: before that, what travels is the model."""
            trained.append(None)
            if len(trained) == len(steps):
                tracer.begin()

        nodes = [fake_grid.Node(client, fake_grid.user_app(fault=training), settings[client]) for client in steps]
        server = F2ed(roster=roster, estimator=FilterL2(contamination=0.1), min_crowd=3)
        with Tracer(size, waiting=True) as tracer:
            server.start(grid=fake_grid.FakeGrid(nodes), initial_arrays=fake_grid.model(size - 3), num_rounds=1)
    return tracer.ride()


@pytest.fixture(params=["simulation", "flower"])
def driver(request):
    return request.param


@pytest.fixture
def ride(driver, request):
    return request.getfixturevalue(driver)


def test_the_page_lists_the_files_that_handle_the_update(driver, ride):
    heading = {"simulation": "In simulation", "flower": "On Flower"}[driver]
    listed = {*documented(heading), *documented("In both")}
    assert {"not on the page": set(ride.files) - listed, "not in the ride": listed - set(ride.files)} == {
        "not on the page": set(),
        "not in the ride": set(),
    }


def test_they_are_few(ride):
    assert len(ride.files) <= MOST


def test_only_the_two_seams_call_up_the_layers(driver, ride):
    assert upward(ride) == SEAMS[driver]


def test_an_attack_is_a_detour_of_the_files_that_the_page_lists(simulation):
    attacked = simulated(model={"kind": "mlp", "hidden": [50]}, attack="trimmed-mean-attack")
    assert sorted(set(attacked.files) - set(simulation.files)) == sorted(documented("With an attack"))
    assert upward(attacked) == SEAMS["simulation"]


def test_both_drivers_share_everything_below_them(simulation, flower):
    own = {"simulation", "flower", "deployment", "learning"}
    simulated, deployed = (
        {file for file in ride.files if file.partition("/")[0] not in own} for ride in (simulation, flower)
    )
    assert simulated == deployed


def test_every_package_has_a_layer():
    packages = {path.parent.name for path in (ROOT / "src" / "f2ed").glob("*/__init__.py")}
    assert set(layers()) == packages
