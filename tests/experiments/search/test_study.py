"""One study: what it proposes, and when it gives up an attack."""

import pytest
from optuna.storages import InMemoryStorage

from f2ed.core.errors import ConfigError
from f2ed.experiments.search.space import Space, kinds_for
from f2ed.experiments.search.study import Study
from tests.experiments.search.small_search import FILE, plan


def study(*, seed=0, known=False, kinds=(), storage=None, content=FILE):
    made, _ = plan(content)
    target = made.targets[0]
    space = Space("backdoor", kinds_for("backdoor", kinds), 6, True, 0.1, 1)
    return Study(target.experiment, space, storage=storage or InMemoryStorage(), label="mean", seed=seed, known=known)


def carried_out(made, harm, *, rounds=6):
    """Report the same harm after every round; return the round after which the attack was given up."""
    proposal = made.ask()
    for round_ in range(rounds):
        if not made.report(proposal.number, round_, harm):
            made.stop(proposal.number)
            return proposal, round_
    made.finish(proposal.number, harm)
    return proposal, None


def test_a_hopeless_attack_is_given_up_and_counts():
    made = study()
    for harm in (0.5, 0.6, 0.7, 0.8, 0.9):
        assert carried_out(made, harm)[1] is None
    proposal, after = carried_out(made, 0.0)
    assert after == proposal.experiment.attack_from + 2  # a third of the rounds from its start
    assert (made.ended, made.stopped) == (6, 1)
    assert made.best.harm == 0.9


def test_an_attack_as_good_as_the_others_is_carried_out():
    made = study()
    for harm in (0.1, 0.2, 0.3, 0.4, 0.5):
        carried_out(made, harm)
    assert carried_out(made, 0.4)[1] is None


def test_the_same_seed_and_results_give_the_same_proposals():
    one, other, another = study(), study(), study(seed=1)
    proposals = [[carried_out(each, 0.1 * at)[0].experiment for at in range(4)] for each in (one, other, another)]
    assert proposals[0] == proposals[1]
    assert proposals[0] != proposals[2]


def test_an_attack_that_was_begun_is_proposed_again():
    storage = InMemoryStorage()
    made = study(storage=storage)
    carried_out(made, 0.5)
    begun = made.ask()
    resumed = study(storage=storage)
    resumed.resume()
    assert resumed.started == 1
    assert resumed.ask().experiment == begun.experiment


def test_an_attack_that_was_tried_before_is_known():
    storage = InMemoryStorage()
    made = study(storage=storage)
    first, _ = carried_out(made, 0.25)
    made._left.append(made._finished()[0].params)
    again = made.ask()
    assert again.experiment == first.experiment
    assert again.known == 0.25


def test_the_first_of_the_best_attacks_is_kept():
    made = study()
    assert made.best is None
    first, _ = carried_out(made, 0.5)
    carried_out(made, 0.5)
    assert made.best.number == first.number
    assert made.best.experiment == first.experiment


def test_a_proposal_that_the_setting_refuses_is_named():
    made = study(kinds=("dba",))
    with pytest.raises(ConfigError, match=r"mean: the proposed .* is refused: attack"):
        made._complete({"attack": {"kind": "dba", "share": 2.0}})
