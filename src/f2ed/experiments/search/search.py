"""The search: studies for every rule and objective, whose trials share the workers, with a journal to resume from."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import UNSET
from optuna.storages import JournalStorage

from f2ed.core.errors import ConfigError
from f2ed.core.files import locked
from f2ed.experiments.search.clean import CleanModels
from f2ed.experiments.search.found import recorded, save, slug
from f2ed.experiments.search.objective import Objective, harm
from f2ed.experiments.search.space import Space, kinds_for
from f2ed.experiments.search.study import Proposal, Study, check_journal, open_journal
from f2ed.experiments.search.summary import Found
from f2ed.experiments.search.target import Target, seeded
from f2ed.experiments.search.workers import Workers
from f2ed.records import RoundRecord, RunHeader, RunLog
from f2ed.simulation import Experiment

__all__ = ["Plan", "Search", "Status"]


_LOCK_SECONDS = 3.0
"""The processes of a search that was killed need a moment to notice."""


class Plan(NamedTuple):
    """What is searched for, and how long."""

    targets: tuple[Target, ...]
    objectives: tuple[Objective, ...] = ("backdoor", "accuracy")
    budget: int = 40
    """Attacks to try on each target by each objective."""
    kinds: tuple[str, ...] = ()
    seed: int = 0
    known: bool = True
    """Begin with the attacks that are usually listed."""
    confirm: int = 0
    """Run what was found with this many further seeds."""
    seconds: float | None = None
    """Propose nothing more after this time."""


class Status(NamedTuple):
    """News of a search: what happened, in which study, and what the attack achieved."""

    event: Literal["honest", "round", "tried", "stopped", "better", "confirmed"]
    study: str
    trial: int | None
    record: RoundRecord
    harm: float | None = None


def checked(plan: Plan) -> Plan:
    """Refuse a plan that tries nothing."""
    if plan.budget < 1:
        raise ConfigError(f"a budget of {plan.budget}: at least 1 attack has to be tried")
    if plan.confirm < 0:
        raise ConfigError(f"{plan.confirm} further seeds: use 0 or more")
    for objective in plan.objectives:
        if not kinds_for(objective, plan.kinds):
            raise ConfigError(f"none of the attacks {', '.join(plan.kinds)} is searched for {objective}; add another")
    return plan


class _Job(NamedTuple):
    """A run in a slot: without an attack, of a trial, or of a found attack with another seed."""

    kind: Literal["honest", "trial", "confirm"]
    study: int
    """For a run without an attack, of any study with the same target."""
    experiment: Experiment
    name: str
    number: int = -1
    clean: CleanModels | None = None
    header: RunHeader | None = None
    rounds: tuple[RoundRecord, ...] = ()


class Search:
    """A search in a folder; run it by iterating over `run`."""

    def __init__(self, plan: Plan, out: Path) -> None:
        self.plan, self.out = checked(plan), out
        self.found_in = out / "found"
        out.mkdir(parents=True, exist_ok=True)
        storage = open_journal(out / "search.journal")
        self._targets = [target for target in plan.targets for _ in plan.objectives]
        for target in plan.targets:
            for objective in plan.objectives:
                check_journal(storage, _label(target, objective), objective)
        self.studies = [
            self._study(target, objective, storage) for target in plan.targets for objective in plan.objectives
        ]
        self._honest: dict[str, RunLog] = {}
        self._logs: dict[str, RunLog] = {}
        for study, target in zip(self.studies, self._targets, strict=True):
            for seed in range(plan.confirm + 1):
                self._note_honest(target, seed)
            if (best := study.best) is not None:
                for seed in range(plan.confirm + 1):
                    log = recorded(self.found_in, _found_name(study, seed), seeded(best.experiment, seed))
                    if log is not None and (study.objective != "backdoor" or log.rounds[-1].planted is not None):
                        self._logs[_found_name(study, seed)] = log

    def _study(self, target: Target, objective: Objective, storage: JournalStorage) -> Study:
        it = target.experiment
        space = Space(
            objective,
            kinds_for(objective, self.plan.kinds),
            it.rounds,
            it.sharded,
            it.training.lr,
            it.training.local_epochs,
        )
        return Study(
            it, space, storage=storage, label=_label(target, objective), seed=self.plan.seed, known=self.plan.known
        )

    def run(self, workers: Workers) -> Iterator[Status]:
        """Carry out the plan; stop the workers when the caller stops iterating."""
        began = time.monotonic()
        running: dict[int, _Job] = {}
        with locked(self.out / "search.journal", wait=_LOCK_SECONDS, remedy="choose another --out"):
            for study in self.studies:
                study.resume()
            try:
                while True:
                    for slot in set(range(workers.slots)) - running.keys():
                        late = self.plan.seconds is not None and time.monotonic() - began > self.plan.seconds
                        job = self._next(list(running.values()), late=late)
                        if job is not None:
                            running[slot] = job
                            workers.start(slot, job.experiment, job.name, job.clean)
                    if not running:
                        return
                    slot, report = workers.wait()
                    yield from self._take(slot, report, running, workers)
            finally:
                workers.close()

    def results(self) -> list[Found]:
        """Return what was found so far."""
        return [self._result(study, target) for study, target in zip(self.studies, self._targets, strict=True)]

    def _next(self, running: Sequence[_Job], *, late: bool) -> _Job | None:
        """Return the next run: first those without an attack, then the study that has tried least."""
        names = {job.name for job in running}
        for index, target in enumerate(self._targets):
            for seed in range(self.plan.confirm + 1):
                name = target.honest_name(seed)
                if name not in self._honest and name not in names:
                    clean = self._clean(target, seed)
                    return _Job("honest", index, seeded(target.experiment, seed), name, clean=clean)
        ready = [
            index
            for index, study in enumerate(self.studies)
            if study.started < self.plan.budget and self._targets[index].honest_name(0) in self._honest
        ]
        while ready and not late:
            index = min(ready, key=lambda at: self.studies[at].started)
            proposal = self.studies[index].ask()
            if proposal.known is None:
                name = f"{self.studies[index].label}, trial {proposal.number}"
                clean = self._compared(index, 0)
                return _Job("trial", index, proposal.experiment, name, proposal.number, clean)
            self._repeated(index, proposal)
            ready = [at for at in ready if self.studies[at].started < self.plan.budget]
        return self._confirmation(names, late=late)

    def _repeated(self, index: int, proposal: Proposal) -> None:
        """Count a proposal that was tried before without running it again."""
        self.studies[index].finish(proposal.number, proposal.known or 0.0)

    def _confirmation(self, names: set[str], *, late: bool) -> _Job | None:
        """Return a run of what was found, with a further seed; with the first one if its record is missing."""
        for index, study in enumerate(self.studies):
            if (study.ended < self.plan.budget and not late) or (best := study.best) is None:
                continue
            for seed in range(self.plan.confirm + 1):
                name, honest = _found_name(study, seed), self._targets[index].honest_name(seed)
                if name not in self._logs and name not in names and honest in self._honest:
                    clean = self._compared(index, seed)
                    return _Job("confirm", index, seeded(best.experiment, seed), name, clean=clean)
        return None

    def _take(
        self, slot: int, report: RunHeader | RoundRecord | None, running: dict[int, _Job], workers: Workers
    ) -> Iterator[Status]:
        job = running[slot]
        if isinstance(report, RunHeader):
            running[slot] = job._replace(header=report)
            workers.go_on(slot)
            return
        if report is None:
            del running[slot]
            yield self._ended(job)
            return
        running[slot] = job = job._replace(rounds=(*job.rounds, report))
        study, reached = self.studies[job.study], None
        if job.kind == "trial":
            honest = self._honest[self._targets[job.study].honest_name(0)]
            reached = harm(study.objective, report, honest.rounds[report.round])
            if not study.report(job.number, report.round, reached) and report.round + 1 < job.experiment.rounds:
                study.stop(job.number)
                del running[slot]
                workers.stop(slot)
                yield Status("stopped", study.label, job.number, report, reached)
                return
        workers.go_on(slot)
        yield Status("round", job.name if job.kind == "honest" else study.label, job.number, report, reached)

    def _ended(self, job: _Job) -> Status:
        """Keep what a run that was finished is needed for."""
        study, target, last = self.studies[job.study], self._targets[job.study], job.rounds[-1]
        if job.header is None:
            raise ConfigError(f"{job.name} ended without a header; search again")
        log = RunLog(job.header, job.rounds)
        if job.kind == "honest":
            save(self.found_in, job.name, job.experiment, log, about="Without an attack.")
            self._honest[job.name] = log
            return Status("honest", job.name, None, last)
        if job.kind == "confirm":
            save(self.found_in, job.name, job.experiment, log, about=_about(last))
            self._logs[job.name] = log
            return Status("confirmed", study.label, None, last)
        before = study.best
        reached = harm(study.objective, last, self._honest[target.honest_name(0)].rounds[-1])
        study.finish(job.number, reached, accuracy=last.accuracy, success=last.success, planted=last.planted)
        if before is not None and reached <= before.harm:
            return Status("tried", study.label, job.number, last, reached)
        name = _found_name(study, 0)
        save(self.found_in, name, job.experiment, log, about=_about(last))
        self._logs = {each: kept for each, kept in self._logs.items() if not each.startswith(name)} | {name: log}
        return Status("better", study.label, job.number, last, reached)

    def _note_honest(self, target: Target, seed: int) -> None:
        """Take up a run without an attack that was saved, with its models where backdoors are compared with them."""
        log = recorded(self.found_in, target.honest_name(seed), seeded(target.experiment, seed))
        clean = self._clean(target, seed)
        if log is not None and (clean is None or clean.exist()):
            self._honest[target.honest_name(seed)] = log

    def _clean(self, target: Target, seed: int) -> CleanModels | None:
        """Return the place of the models without an attack; None where no backdoor is searched for."""
        if "backdoor" not in self.plan.objectives:
            return None
        return CleanModels.of(self.out / "clean", seeded(target.experiment, seed))

    def _compared(self, index: int, seed: int) -> CleanModels | None:
        """Return the models that the trigger of a run is tried against, too; None for attacks on accuracy."""
        return self._clean(self._targets[index], seed) if self.studies[index].objective == "backdoor" else None

    def _result(self, study: Study, target: Target) -> Found:
        seeds = range(self.plan.confirm + 1)
        honest = [log.final_accuracy for seed in seeds if (log := self._honest.get(target.honest_name(seed)))]
        logs = [log for seed in seeds if (log := self._logs.get(_found_name(study, seed))) is not None]
        settings = logs[0].header.settings if logs else {}
        backdoors = [log.rounds[-1] for log in logs] if study.objective == "backdoor" else []
        return Found(
            setting=target.setting,
            rule=target.rule,
            objective=study.objective,
            trials=study.ended,
            stopped=study.stopped,
            honest=tuple(honest),
            accuracy=tuple(log.final_accuracy for log in logs),
            success=tuple(last.success or 0.0 for last in backdoors),
            unpoisoned=tuple(last.success_unpoisoned or 0.0 for last in backdoors),
            planted=tuple(last.planted or 0.0 for last in backdoors),
            attack={key: value for key, value in (settings.get("attack") or {}).items() if value is not None},
            attack_from=settings.get("attack_from", 0),
            placement=settings.get("placement"),
            file=str(self.found_in / f"{slug(_found_name(study, 0))}.toml") if logs else "",
        )


def _label(target: Target, objective: Objective) -> str:
    return f"{target.label}, {objective}"


def _found_name(study: Study, seed: int) -> str:
    return study.label + (f", seed +{seed}" if seed else "")


def _about(last: RoundRecord) -> str:
    success = "" if last.success is None else f", attack success {last.success!r}"
    if last.success_unpoisoned is not UNSET:
        success += f" ({last.success_unpoisoned!r} against a model that was never poisoned)"
    return f"Found by f2ed search. After the last round: accuracy {last.accuracy!r}{success}."
