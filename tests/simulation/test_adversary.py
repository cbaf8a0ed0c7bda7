"""What the malicious clients of a run know."""

import numpy as np
import pytest

from f2ed.attacks import Oracle
from f2ed.simulation import Simulation, experiment
from tests.simulation.small_run import SMALL


@pytest.fixture
def shown(monkeypatch):
    """The last estimate as the attack is shown it in every round."""
    seen, craft = [], Oracle.craft

    def noting(self, scene):
        seen.append(scene.view.previous)
        return craft(self, scene)

    monkeypatch.setattr(Oracle, "craft", noting)
    return seen


def test_attackers_know_the_last_estimate_which_is_how_the_model_moved(shown):
    run = Simulation(experiment({**SMALL, "attack": "oracle", "estimator": "align-ins"}))
    models = [run.start().model, *(state.model for state, _ in run.rounds())]
    assert shown[0] is None
    for before, after, seen in zip(models, models[1:], shown[1:], strict=False):
        np.testing.assert_allclose(seen, after - before, atol=1e-6)


def test_attackers_are_shown_no_estimate_that_the_rule_does_not_use(shown):
    list(Simulation(experiment({**SMALL, "attack": "oracle", "estimator": "median"})).rounds())
    assert shown == [None, None, None]
