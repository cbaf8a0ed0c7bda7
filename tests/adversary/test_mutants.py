"""Defenses taken out of the source one at a time: each time an attack succeeds, so that a test in this folder fails.

Every hole that was ever found has its defenses here, by its number:
 0 code of a stranger · 1 settings that are not bound · 2 weights · 3 rounds and seeds · 4 mode and colluders ·
 5 sums below the crowd · 6 lock files · 7 garbage parcels and differences · 8 one client that stalls all ·
 9 headers that declare terabytes · 10 keys that outlive their round · 11 failures as an oracle.

Vectors and messages of errors count for nothing here: what fails is an attack.
"""

import inspect
import sys
from typing import NamedTuple

import pytest

from f2ed.core import files
from f2ed.deployment import array_header, node_step
from f2ed.deployment.pace import Pace
from f2ed.deployment.roster import draw
from f2ed.deployment.round_mark import RoundMark
from f2ed.deployment.survivor_sets import SurvivorSets
from f2ed.deployment.train_input import InputSummary
from f2ed.flower.pinning import Gate
from f2ed.protocol.secagg import Refused, checks, terms
from f2ed.protocol.secagg.messages import Upload, decode
from f2ed.protocol.secagg.schemes import dropout_tolerant
from f2ed.protocol.secagg.schemes.all_or_nothing import client as all_or_nothing_client
from f2ed.protocol.secagg.schemes.dropout_tolerant import client
from tests.adversary import (
    test_array_sizes,
    test_blame,
    test_bound_input,
    test_draw,
    test_failures,
    test_keys,
    test_locks,
    test_policy_terms,
    test_power_cut,
    test_split_terms,
    test_stalls,
    test_tolerant,
)
from tests.adversary.lying_server import VICTIM, app_with, training_request
from tests.adversary.lying_server import LyingServer as TrainingServer
from tests.deployment import test_survivor_sets
from tests.flower import test_flower_rounds_forward, test_launcher
from tests.flower.fake_grid import FakeGrid, Node, model, real_roster, server, user_app


class Mutant(NamedTuple):
    hole: int
    owner: object
    """The module or class with the function."""
    function: str
    was: str
    becomes: str
    attack: object
    """Called with a folder and `monkeypatch`."""
    slow: bool = False


def a_strangers_app(folder, _):
    bench, stranger = test_launcher.Bench(folder), test_launcher.make_app(folder / "stranger", code="x = 1\n")
    assert test_launcher.refused(bench.send(stranger), stranger)


def another_hash(folder):
    return test_launcher.Bench(folder), test_launcher.make_app(folder / "stranger", code="x = 1\n")


def a_removed_lock_file(folder, patch):
    """The lock has to hold by itself: the last round, which is a second defense, is not written down."""
    patch.setattr(RoundMark, "spend", lambda *_: None)
    test_locks.test_a_node_whose_lock_file_is_removed_does_not_answer_one_round_twice(folder)


def a_silent_client(folder, patch):
    """With deadlines of 3 s, eight rounds take less than one of them altogether, unless every round costs one."""
    patch.setattr(test_stalls, "DEADLINE", 3.0)
    roster, settings = real_roster(folder, 12, shards=4)
    nodes = [Node(each, user_app(), settings[each]) for each in range(12)]
    nodes[roster.assignment(0).shards[0][0]].tamper = test_stalls.silent_when_asked_to_train
    slow = test_stalls.SLOW | {"deadline": 3.0, "train_deadline": 3.0}
    leader = server(roster, **slow | {"malicious": 0})
    leader.start(FakeGrid(nodes), model(), num_rounds=2)
    assert test_stalls.seconds(leader) < 3.0


def an_overflow_at_the_victim(folder, _):
    app = app_with(lambda *_: 1.0, faults={VICTIM: test_failures.FAULTS["NaN"]})
    lying = TrainingServer(folder, app).lead(training_request(), training_request())
    assert all(type(decode((Upload, Refused), each, payload=10**6)) is Upload for each in lying.replies.values())


def an_overflow_at_all_but_the_victim(folder, _):
    others = [each for each in range(4) if each != VICTIM]
    app = app_with(lambda *_: 1.0, faults=dict.fromkeys(others, test_failures.FAULTS["NaN"]))
    assert TrainingServer(folder, app).lead(training_request(), training_request()).opened() is None


def weighted(folder):
    trained = []
    server = test_policy_terms.LyingServer(
        folder, 12, fault=lambda *_: trained.append(1), min_crowd=10, **test_policy_terms.SIGNED
    )
    server.trained = trained
    return server


MUTANTS = {
    "the consistency threshold is lower": Mutant(
        5,
        client,
        "reveal",
        "len(signers) < phase.masked.terms.threshold",
        "len(signers) < phase.masked.terms.threshold * 55 // 70",
        lambda *_: test_tolerant.test_colluders_that_sign_two_lists_open_nobody(11, 1),
    ),
    "the node ignores the roster's crowd when a sum opens": Mutant(
        5,
        client,
        "_enough",
        "max(terms.threshold, terms.min_crowd)",
        "terms.threshold",
        lambda folder, _: test_policy_terms.test_the_signed_crowd_is_what_opens(folder),
    ),
    "the node follows the crowd that the server states": Mutant(
        5,
        checks,
        "_derived",
        "in Terms.__struct_fields__:",
        'in set(Terms.__struct_fields__) - {"min_crowd"}:',
        lambda folder, _: test_policy_terms.test_the_signed_crowd_is_what_opens(folder),
    ),
    "integer arrays are left out of the fingerprint": Mutant(
        1,
        InputSummary,
        "digest",
        "for each in self.arrays for part",
        'for each in self.arrays if "int" not in each.dtype for part',
        lambda folder, _: test_bound_input.test_a_victim_that_is_told_something_else_is_not_opened(
            folder, "an integer array"
        ),
    ),
    "fsync is dropped": Mutant(
        6,
        files,
        "_write_through",
        "os.fsync(handle)",
        "pass",
        lambda folder, patch: test_power_cut.test_a_node_that_lost_power_after_its_reply_never_begins_the_round_again(
            folder, patch, 7
        ),
    ),
    "the folder is not synced": Mutant(
        6,
        files,
        "_sync_folder",
        "os.fsync(handle)",
        "pass",
        lambda folder, patch: test_power_cut.test_a_node_that_lost_power_after_its_reply_never_begins_the_round_again(
            folder, patch, 7
        ),
    ),
    "weights are not bound": Mutant(
        2,
        terms,
        "bind",
        "*map(unsigned, terms.weights),",
        "",
        lambda *_: test_split_terms.test_a_victim_that_is_told_other_terms_is_not_opened("weights"),
    ),
    "colluders are not bound": Mutant(
        4,
        terms,
        "bind",
        "(terms.threshold, terms.min_crowd, terms.colluders)",
        "(terms.threshold, terms.min_crowd)",
        lambda *_: test_split_terms.test_a_victim_that_is_told_other_terms_is_not_opened("colluders"),
    ),
    "the quorum ignores the colluders": Mutant(
        4,
        dropout_tolerant.DropoutTolerant,
        "quorum",
        "(members + colluders) // 2 + 1",
        "members // 2 + 1",
        lambda folder, _: test_tolerant.test_real_nodes_with_an_accomplice_that_signs_two_lists_open_nobody(folder, 11),
    ),
    "the node follows the weights that the server states": Mutant(
        2,
        checks,
        "_derived",
        "in Terms.__struct_fields__:",
        'in set(Terms.__struct_fields__) - {"weights"}:',
        lambda folder, _: test_policy_terms.test_a_field_that_is_stated_differently_is_refused_by_name(
            weighted(folder), "weights"
        ),
    ),
    "the node follows the colluders that the server states": Mutant(
        4,
        checks,
        "_derived",
        "in Terms.__struct_fields__:",
        'in set(Terms.__struct_fields__) - {"colluders"}:',
        lambda folder, _: test_policy_terms.test_a_field_that_is_stated_differently_is_refused_by_name(
            weighted(folder), "colluders"
        ),
    ),
    "an app that nobody approved is run": Mutant(
        0, Gate, "check", "self.check_approved(digest.digest())", "pass", a_strangers_app
    ),
    "an app is taken for the one that it says it is": Mutant(
        0,
        Gate,
        "check",
        "digest = hashlib.sha256(content)",
        'digest = __import__("types").SimpleNamespace('
        "digest=lambda: bytes.fromhex(run.fab_hash), hexdigest=lambda: run.fab_hash)",
        lambda folder, _: test_launcher.test_the_approved_hash_on_other_bytes_is_refused_and_the_loop_goes_on(
            *another_hash(folder)
        ),
    ),
    "settings are left out of the fingerprint": Mutant(
        1,
        InputSummary,
        "digest",
        "len(self.config), _settings(self.config)",
        "0, ()",
        lambda folder, _: test_bound_input.test_a_victim_that_is_told_something_else_is_not_opened(
            folder, "a learning rate"
        ),
    ),
    "old rounds are answered again": Mutant(
        3,
        RoundMark,
        "_check",
        "if round_ <= last:",
        "if False:",
        lambda folder, _: test_flower_rounds_forward.test_another_run_does_not_make_old_rounds_valid_again(folder),
    ),
    "the server jumps to any round": Mutant(
        3,
        RoundMark,
        "_check",
        "if round_ > (latest := max(last, self.first - 1) + self.skip):",
        "if round_ < (latest := -1):",
        lambda folder, _: test_flower_rounds_forward.test_the_server_cannot_jump_to_the_assignment_that_it_likes(
            folder, 4
        ),
    ),
    "any seed is followed": Mutant(
        3,
        draw,
        "check_draw",
        "if roster.seed != _seed(roster, roster.draw, clients):",
        "if False:",
        lambda folder, _: test_draw.test_a_seed_cannot_be_chosen_until_the_groups_suit(test_draw.Federation(folder)),
    ),
    "a removed lock file is not noticed": Mutant(
        6,
        files,
        "_is_current",
        "return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)",
        "return True",
        a_removed_lock_file,
    ),
    "who gets garbage leaves": Mutant(
        7,
        client,
        "upload",
        "complaints.append(complain(phase, each.parcel, member, unlinked=not root))",
        'raise Refusal("garbage")',
        lambda *_: test_blame.test_a_dealer_of_garbage_is_convicted_and_no_recipient_is_lost(5, "sealed"),
    ),
    "sets of survivors are not counted": Mutant(
        7,
        SurvivorSets,
        "confirm",
        "len(before) >= self.most",
        "False",
        lambda folder, _: test_survivor_sets.test_differences_end_over_runs_and_nothing_is_signed_for_the_last(folder),
    ),
    "deadlines do not follow from recent rounds": Mutant(
        8,
        Pace,
        "usual",
        "return sorted(times, reverse=True)[slowest]",
        "return inf",
        a_silent_client,
        slow=True,
    ),
    "what a header declares is not compared": Mutant(
        9,
        array_header,
        "checked_dtype",
        "if (there := len(data) - stream.tell()) != (declares := prod(declared) * found.itemsize):",
        "if (there := 0) != (declares := 0):",
        lambda folder, _: test_array_sizes.test_an_array_that_is_not_what_it_says_is_refused(folder, "8 TiB"),
    ),
    "chains do not move on": Mutant(
        10,
        all_or_nothing_client,
        "_moved",
        "tuple(chain and ratchet(chain) for chain in chains)",
        "chains",
        lambda folder, _: test_keys.test_a_stolen_state_opens_no_round_before_it_and_none_after_the_epoch(
            test_keys.LyingServer(folder, test_keys.MEMBERS, key_rounds=test_keys.EPOCH)
        ),
    ),
    "a failure is refused by name": Mutant(
        11,
        node_step,
        "_trained_words",
        "return random_words(terms, key=os.urandom(32))",
        'raise ConfigError("training failed")',
        an_overflow_at_the_victim,
    ),
    "zeros leave in place of a failure": Mutant(
        11,
        node_step,
        "_trained_words",
        "return random_words(terms, key=os.urandom(32))",
        "zeros = 0 * random_words(terms, key=bytes(32))[:plan.coordinates].astype('f4')\n"
        "    return contribution(zeros, me.id, key=bytes(32))(terms)",
        an_overflow_at_all_but_the_victim,
    ),
}


def test_every_hole_has_a_defense_that_is_attacked():
    assert {each.hole for each in MUTANTS.values()} == set(range(12))


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
    for kind in [kind for kind, step in client.STEPS.items() if step is original]:
        monkeypatch.setitem(client.STEPS, kind, function)


def parameters():
    return [pytest.param(name, marks=[pytest.mark.nightly] * each.slow) for name, each in MUTANTS.items()]


@pytest.mark.parametrize("name", parameters())
def test_an_attack_succeeds_without_the_defense(tmp_path, monkeypatch, name):
    """An attack that its defense stops passes as a test of its own; without the defense it fails."""
    put(monkeypatch, MUTANTS[name])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        MUTANTS[name].attack(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "name",
    [
        "an app that nobody approved is run",
        "a removed lock file is not noticed",
        "a failure is refused by name",
        "zeros leave in place of a failure",
    ],
)
def test_with_its_defense_the_attack_fails(tmp_path, monkeypatch, name):
    """For those attacks that are no tests of their own."""
    MUTANTS[name].attack(tmp_path, monkeypatch)
