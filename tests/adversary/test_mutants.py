"""Defenses taken out of the source one at a time: each time an attack succeeds, so that a test in this folder fails.

Vectors and messages of errors count for nothing here: what fails is an attack.
"""

import inspect
import sys
from typing import NamedTuple

import pytest

from f2ed.core import files
from f2ed.deployment.train_input import InputSummary
from f2ed.protocol.secagg import checks, terms
from f2ed.protocol.secagg.schemes import dropout_tolerant
from f2ed.protocol.secagg.schemes.dropout_tolerant import client
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Confirmations
from tests.adversary import test_bound_input, test_policy_terms, test_power_cut, test_split_terms, test_tolerant


class Mutant(NamedTuple):
    owner: object
    """The module or class with the function."""
    function: str
    was: str
    becomes: str
    attack: object
    """Called with a folder and `monkeypatch`."""


MUTANTS = {
    "the consistency threshold is lower": Mutant(
        client,
        "reveal",
        "len(signers) < phase.masked.terms.threshold",
        "len(signers) < phase.masked.terms.threshold * 55 // 70",
        lambda *_: test_tolerant.test_colluders_that_sign_two_lists_open_nobody(11, 1),
    ),
    "the node ignores the roster's crowd when a sum opens": Mutant(
        client,
        "_enough",
        "max(terms.threshold, terms.min_crowd)",
        "terms.threshold",
        lambda folder, _: test_policy_terms.test_the_signed_crowd_is_what_opens(folder),
    ),
    "the node follows the crowd that the server states": Mutant(
        checks,
        "_derived",
        "in Terms.__struct_fields__:",
        'in set(Terms.__struct_fields__) - {"min_crowd"}:',
        lambda folder, _: test_policy_terms.test_the_signed_crowd_is_what_opens(folder),
    ),
    "integer arrays are left out of the fingerprint": Mutant(
        InputSummary,
        "digest",
        "for each in self.arrays for part",
        'for each in self.arrays if "int" not in each.dtype for part',
        lambda folder, _: test_bound_input.test_a_victim_that_is_told_something_else_is_not_opened(
            folder, "an integer array"
        ),
    ),
    "fsync is dropped": Mutant(
        files,
        "_write_through",
        "os.fsync(handle)",
        "pass",
        lambda folder, patch: test_power_cut.test_a_node_that_lost_power_after_its_reply_never_begins_the_round_again(
            folder, patch, 7
        ),
    ),
    "the folder is not synced": Mutant(
        files,
        "_sync_folder",
        "os.fsync(handle)",
        "pass",
        lambda folder, patch: test_power_cut.test_a_node_that_lost_power_after_its_reply_never_begins_the_round_again(
            folder, patch, 7
        ),
    ),
    "weights are not bound": Mutant(
        terms,
        "bind",
        "*map(unsigned, terms.weights),",
        "",
        lambda *_: test_split_terms.test_a_victim_that_is_told_other_terms_is_not_opened("weights"),
    ),
    "colluders are not bound": Mutant(
        terms,
        "bind",
        "(terms.threshold, terms.min_crowd, terms.colluders)",
        "(terms.threshold, terms.min_crowd)",
        lambda *_: test_split_terms.test_a_victim_that_is_told_other_terms_is_not_opened("colluders"),
    ),
    "the quorum ignores the colluders": Mutant(
        dropout_tolerant.DropoutTolerant,
        "quorum",
        "(members + colluders) // 2 + 1",
        "members // 2 + 1",
        lambda folder, _: test_tolerant.test_real_nodes_with_an_accomplice_that_signs_two_lists_open_nobody(folder, 11),
    ),
    "the node follows the weights that the server states": Mutant(
        checks,
        "_derived",
        "in Terms.__struct_fields__:",
        'in set(Terms.__struct_fields__) - {"weights"}:',
        lambda folder, _: test_policy_terms.test_a_field_that_is_stated_differently_is_refused_by_name(
            weighted(folder), "weights"
        ),
    ),
    "the node follows the colluders that the server states": Mutant(
        checks,
        "_derived",
        "in Terms.__struct_fields__:",
        'in set(Terms.__struct_fields__) - {"colluders"}:',
        lambda folder, _: test_policy_terms.test_a_field_that_is_stated_differently_is_refused_by_name(
            weighted(folder), "colluders"
        ),
    ),
}


def weighted(folder):
    trained = []
    server = test_policy_terms.LyingServer(
        folder, 12, fault=lambda *_: trained.append(1), min_crowd=10, **test_policy_terms.SIGNED
    )
    server.trained = trained
    return server


def mutated(mutant):
    """Return the function with one expression replaced."""
    original = getattr(mutant.owner, mutant.function)
    source = inspect.cleandoc("\n" + inspect.getsource(original))
    assert source.count(mutant.was) == 1, source
    made: dict[str, object] = {}
    exec(source.replace(mutant.was, mutant.becomes), vars(sys.modules[original.__module__]), made)  # noqa: S102  ours
    return made[mutant.function]


def put(monkeypatch, mutant):
    """Put the mutated function wherever the original is used."""
    original, function = getattr(mutant.owner, mutant.function), mutated(mutant)
    monkeypatch.setattr(mutant.owner, mutant.function, function)
    for name, module in list(sys.modules.items()):
        if name.startswith("f2ed.") and vars(module).get(mutant.function) is original:
            monkeypatch.setattr(module, mutant.function, function)
    if original is client.STEPS[Confirmations]:
        monkeypatch.setitem(client.STEPS, Confirmations, function)


@pytest.mark.parametrize("name", MUTANTS)
def test_an_attack_succeeds_without_the_defense(tmp_path, monkeypatch, name):
    put(monkeypatch, MUTANTS[name])
    with pytest.raises(AssertionError):
        MUTANTS[name].attack(tmp_path, monkeypatch)
