"""The search as a whole: it finds the worst of what it tries, saves it, and resumes where it was stopped."""

from multiprocessing import Pipe
from threading import Thread

import msgspec
import pytest

import f2ed.experiments.search.search as module
import f2ed.experiments.search.space as space_module
import f2ed.experiments.search.study as study_module
from f2ed.core.errors import BusyError, ConfigError
from f2ed.core.files import locked
from f2ed.experiments import expand, read
from f2ed.experiments.search import Search, targets_of
from f2ed.experiments.search.objective import harm
from f2ed.experiments.search.workers import Here, Processes, Work, answer
from f2ed.records import read as read_log
from f2ed.simulation import simulate
from tests.experiments.search.small_search import FILE, plan, proposals, searched


def test_what_is_found_is_the_most_harmful_of_what_was_tried(tmp_path):
    search, events = searched(tmp_path, budget=4)
    tried = [event for event in events if event.event in {"tried", "better"}]
    (found,) = search.results()
    assert len(tried) == found.trials == 4
    assert search.studies[0].best.harm == max(event.harm for event in tried)
    worst = max(tried, key=lambda event: event.harm)
    assert found.success == (worst.record.success,)


def test_the_saved_file_repeats_the_attack_to_the_digit(tmp_path):
    search, _ = searched(tmp_path)
    (found,) = search.results()
    (cell,) = expand(read(tmp_path / "found" / "mean-backdoor.toml"))
    again = simulate(cell.experiment).records
    log = read_log(tmp_path / "found" / "mean-backdoor.jsonl")
    assert [each.loss for each in again] == [each.loss for each in log.rounds]
    assert again[-1].success == found.success[0]


LEARNED = FILE.replace("lr = 0.1,", "lr = 1.0, local_epochs = 5,")
"""So much that the noise of iba fools the model, though it was never poisoned."""


def test_of_a_backdoor_counts_what_was_planted(tmp_path):
    search, events = searched(tmp_path, LEARNED, budget=1, kinds=("iba",))
    (found,) = search.results()
    (success,), (alone,), (planted,) = found.success, found.unpoisoned, found.planted
    assert alone > 0
    assert planted == max(0.0, success - alone)
    last = events[-1]
    lost = search._honest["mean, no attack"].rounds[-1].accuracy - last.record.accuracy
    assert last.harm == planted - max(0.0, lost - 0.05)
    assert f"({alone!r} against a model that was never poisoned)" in (tmp_path / "found/mean-backdoor.toml").read_text()


def test_before_an_attack_begins_it_has_planted_nothing(tmp_path):
    search, events = searched(tmp_path, LEARNED, budget=4, known=False)
    begins = [each["attack_from"] for each in proposals(search)]
    early = [each.record for each in events if each.event == "round" and each.record.round < begins[each.trial]]
    early = [record for record in early if record.success is not None]
    assert early
    assert all(record.planted == 0 and record.success_unpoisoned == record.success for record in early)


def test_clean_models_that_are_missing_are_made_again(tmp_path):
    searched(tmp_path, budget=1)
    (models,) = (tmp_path / "clean").iterdir()
    models.unlink()
    second, events = searched(tmp_path, budget=2)
    assert [event.event for event in events[:4]] == ["round", "round", "round", "honest"]
    assert models.exists()
    assert second.studies[0].ended == 2


def test_a_search_for_accuracy_alone_keeps_no_models(tmp_path):
    searched(tmp_path, budget=1, objectives=("accuracy",))
    assert not (tmp_path / "clean").exists()


def test_what_was_found_is_compared_with_the_clean_model_of_its_seed(tmp_path):
    search, _ = searched(tmp_path, LEARNED, budget=1, confirm=1, kinds=("iba",))
    (found,) = search.results()
    assert len(set(found.unpoisoned)) == len(found.unpoisoned) == 2


def test_objectives_are_searched_apart(tmp_path):
    search, _ = searched(tmp_path, objectives=("backdoor", "accuracy"), budget=2)
    backdoor, accuracy = search.results()
    assert (backdoor.objective, accuracy.objective) == ("backdoor", "accuracy")
    assert accuracy.attack["kind"] == "oracle"
    assert not accuracy.success
    assert {each["attack"]["kind"] for each in proposals(search, 1)} == {"oracle", "edge"}


def test_an_interrupted_search_continues_as_if_it_had_not_been(tmp_path):
    whole, events = searched(tmp_path / "whole", budget=4, known=False)
    middle = next(at for at, event in enumerate(events) if event.trial == 1) + 2
    searched(tmp_path / "torn", budget=4, known=False, stop_after=middle)
    resumed, rest = searched(tmp_path / "torn", budget=4, known=False)
    assert proposals(resumed) == proposals(whole)
    assert resumed.results()[0].success == whole.results()[0].success
    assert not any(event.event == "honest" for event in rest)


def test_a_larger_budget_continues_a_search(tmp_path):
    first = proposals(searched(tmp_path, budget=2)[0])
    second, events = searched(tmp_path, budget=3)
    assert proposals(second)[:2] == first
    assert len(first) == 2
    assert sum(event.event in {"tried", "better", "stopped"} for event in events) == 1


def test_a_finished_search_runs_nothing_again(tmp_path):
    first, _ = searched(tmp_path)
    second, events = searched(tmp_path)
    assert events == []
    assert second.results() == first.results()


def test_a_journal_whose_trials_came_from_another_space_is_refused(tmp_path, monkeypatch):
    searched(tmp_path, budget=1)
    monkeypatch.setattr(study_module, "fingerprint", lambda objective: f"another {objective}")
    with pytest.raises(ConfigError, match=r"'mean, backdoor' was written by another version.*choose another --out"):
        searched(tmp_path, budget=1)


def test_a_journal_whose_backdoors_were_measured_in_another_way_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(space_module.MEASURES, "backdoor", ())
    searched(tmp_path, budget=1, objectives=("accuracy", "backdoor"))
    monkeypatch.undo()
    searched(tmp_path, budget=1, objectives=("accuracy",))
    with pytest.raises(ConfigError, match=r"'mean, backdoor'.*measured them in another way.*choose another --out"):
        searched(tmp_path, budget=1)


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "search.journal").write_text('{"op_code": 0, torn\n{}\n')
    with pytest.raises(ConfigError, match=r"search.journal is no journal.*choose another --out"):
        searched(tmp_path, budget=1)


def test_another_setting_is_another_search(tmp_path):
    searched(tmp_path, budget=1)
    _, events = searched(tmp_path, FILE.replace("clients = 12", "clients = 16"), budget=1)
    assert any(event.event == "better" for event in events)


def test_what_was_found_is_run_with_further_seeds(tmp_path):
    search, events = searched(tmp_path, budget=1, confirm=1)
    (found,) = search.results()
    assert len(found.honest) == len(found.accuracy) == len(found.success) == 2
    assert sum(event.event == "confirmed" for event in events) == 1
    assert (tmp_path / "found" / "mean-backdoor-seed-1.toml").exists()


def test_a_record_that_is_missing_is_made_again(tmp_path):
    first, _ = searched(tmp_path, budget=1)
    (tmp_path / "found" / "mean-backdoor.jsonl").unlink()
    second, events = searched(tmp_path, budget=1)
    assert [event.event for event in events] == ["round", "round", "round", "confirmed"]
    assert second.results() == first.results()


def test_nothing_more_is_proposed_after_the_time_given(tmp_path):
    search, events = searched(tmp_path, seconds=0.0)
    assert search.studies[0].ended == 0
    assert events[-1].event == "honest"


@pytest.mark.nightly
def test_several_processes_find_the_same_as_one(tmp_path):
    """The attacks that are usually listed come first, in the same order."""
    one, _ = searched(tmp_path / "one", budget=2)
    made, _ = plan(budget=2)
    several = Search(made, tmp_path / "several")
    list(several.run(Processes(2, device="cpu", folder=None)))
    found, expected = several.results()[0], one.results()[0]
    assert (found.trials, found.success, found.attack) == (expected.trials, expected.success, expected.attack)


@pytest.fixture
def worker():
    """The conversation with a worker process, which is a thread here."""
    ours, theirs = Pipe()
    thread = Thread(target=answer, args=(theirs, Work("cpu", None, 1, 0, ())))
    thread.start()
    yield ours
    ours.close()
    thread.join()


def test_a_worker_reports_every_round_and_stops_when_told(worker):
    made, _ = plan()
    (target,) = made.targets
    worker.send((target.experiment, "first", None))
    assert worker.recv().name == "first"
    worker.send(True)
    assert worker.recv().round == 0
    worker.send(False)
    worker.send((target.experiment, "second", None))
    reports = []
    while (report := worker.recv()) is not None:
        reports.append(report)
        worker.send(True)
    assert [report.round for report in reports[1:]] == [0, 1, 2]


def test_a_worker_answers_a_refused_run_with_a_sentence(worker):
    made, _ = plan()
    bad = msgspec.structs.replace(made.targets[0].experiment, malicious=99)
    worker.send((bad, "bad", None))
    assert worker.recv().startswith("bad: malicious: found 99 of 12 clients")


def test_two_searches_do_not_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LOCK_SECONDS", 0.0)
    made, loaded = plan()
    with (
        locked(tmp_path / "search.journal", remedy="wait"),
        pytest.raises(BusyError, match="choose another --out"),
    ):
        next(Search(made, tmp_path).run(Here(loaded, device="cpu")))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"budget": 0}, "budget of 0: at least 1"),
        ({"confirm": -1}, "-1 further seeds: use 0 or more"),
        ({"kinds": ("dbaa",)}, "knows no attack 'dbaa'; choose from: a3fl, adaptive-backdoor"),
        ({"kinds": ("ipm",)}, "none of the attacks ipm is searched for backdoor"),
    ],
)
def test_a_plan_that_tries_nothing_is_refused(change, says, tmp_path):
    made, _ = plan(**change)
    with pytest.raises(ConfigError, match=says):
        Search(made, tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (FILE + 'attack = "alie"\n', "a search chooses the attack"),
        (FILE.replace("malicious = 2", "malicious = 0"), "there are no malicious clients"),
    ],
)
def test_a_setting_that_cannot_be_attacked_is_refused(content, says):
    with pytest.raises(ConfigError, match=says):
        plan(content)


def test_nothing_to_attack_is_refused():
    with pytest.raises(ConfigError, match="nothing to attack"):
        targets_of([])


def test_a_useless_model_is_no_backdoor(tmp_path):
    search, events = searched(tmp_path, budget=1)
    record = events[-1].record
    honest = next(iter(search._honest.values())).rounds[-1]
    good = _with(record, accuracy=0.9, success=1.0, success_unpoisoned=0.0)
    useless = _with(good, accuracy=0.1)
    honest = _with(honest, accuracy=0.92)
    assert harm("backdoor", good, honest) == 1.0
    assert harm("backdoor", _with(good, success_unpoisoned=0.25), honest) == 0.75
    assert harm("backdoor", _with(good, success=0.1, success_unpoisoned=0.25), honest) == 0.0
    assert harm("backdoor", useless, honest) == pytest.approx(1 - (0.82 - 0.05))
    assert harm("accuracy", useless, honest) == pytest.approx(0.82)
    with pytest.raises(ConfigError, match="this task has none"):
        harm("accuracy", _with(record, accuracy=None), honest)
    with pytest.raises(ConfigError, match="attacks with a goal"):
        harm("backdoor", _with(good, success=None), honest)


def _with(record, **changes):
    return msgspec.structs.replace(record, **changes)
