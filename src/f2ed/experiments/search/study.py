"""One study: proposals for the attack on one rule, by Optuna's TPE, with a journal from which it resumes.

Each proposal depends on the seed, its number and the trials before it, not on what a process did before: a search that
was interrupted continues as if it had not been. With several trials at a time it depends on which end first.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import optuna
from optuna.pruners import PercentilePruner
from optuna.samplers import TPESampler
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from f2ed.core.errors import ConfigError
from f2ed.experiments.search.objective import Objective
from f2ed.experiments.search.space import Space, fingerprint
from f2ed.simulation import Experiment, experiment
from f2ed.simulation.header import digest
from f2ed.simulation.own import plain

__all__ = ["Best", "Proposal", "Study", "check_journal", "open_journal"]

_LABEL, _SPACE = "label", "space"
_DONE = (TrialState.COMPLETE, TrialState.PRUNED)
_KEPT = 60.0
"""Percent of the trials that may continue after a round, measured by those that ended."""
_FIRST = 5
"""Trials that are never stopped early."""

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Proposal(NamedTuple):
    """An attack to try."""

    number: int
    experiment: Experiment
    known: float | None = None
    """What the same settings achieved before."""


class Best(NamedTuple):
    """The most harmful attack so far."""

    number: int
    harm: float
    experiment: Experiment


def open_journal(path: Path) -> JournalStorage:
    """Return the journal of a search, a new one if there is none; refuse what is not one."""
    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (ValueError, KeyError) as error:
        raise ConfigError(
            f"{path} is no journal of a search that can be read ({error}); choose another --out"
        ) from None


def check_journal(storage: BaseStorage, label: str, objective: Objective) -> None:
    """Refuse a journal whose trials of this search came from another space or were measured in another way."""
    for before in optuna.get_all_study_summaries(storage, include_best_trial=False):
        noted = before.user_attrs.get(_LABEL, before.study_name.rpartition(" ")[0])
        if noted == label and before.user_attrs.get(_SPACE) != fingerprint(objective):
            raise ConfigError(
                f"the journal of {label!r} was written by another version, which tried other attacks or measured "
                "them in another way, so it cannot be continued; choose another --out"
            )


class Study:
    """The search for the most harmful attack on one setting, with one objective."""

    def __init__(
        self, target: Experiment, space: Space, *, storage: BaseStorage, label: str, seed: int, known: bool
    ) -> None:
        self.target, self.space, self.label = target, space, label
        identity = (digest(target), space.objective, space.kinds, seed, known)
        self.name = f"{label} {hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:8]}"
        self._seed = seed
        self._known = space.known() if known else []
        self._study = optuna.create_study(
            study_name=self.name,
            storage=storage,
            direction="maximize",
            load_if_exists=True,
            pruner=PercentilePruner(_KEPT, n_startup_trials=_FIRST),
        )
        self._study.set_user_attr(_LABEL, label)
        self._study.set_user_attr(_SPACE, fingerprint(space.objective))
        self._trials: dict[int, optuna.Trial] = {}
        self._left: list[dict[str, Any]] = []

    def resume(self) -> None:
        """Take up again the attacks that an earlier process began; no other may be running."""
        for trial in self._study.get_trials(deepcopy=False, states=[TrialState.RUNNING, TrialState.WAITING]):
            self._study.tell(trial.number, state=TrialState.FAIL)
            self._left.append(trial.params or trial.system_attrs.get("fixed_params", {}))

    @property
    def objective(self) -> Objective:
        """What is maximized."""
        return self.space.objective

    @property
    def started(self) -> int:
        """The number of attacks tried or being tried."""
        return self.ended + len(self._trials)

    @property
    def ended(self) -> int:
        """The number of attacks tried, those stopped early included."""
        return len(self._finished())

    @property
    def stopped(self) -> int:
        """The number of attacks stopped early."""
        return sum(trial.state == TrialState.PRUNED for trial in self._finished())

    @property
    def best(self) -> Best | None:
        """The most harmful attack that was run to its end."""
        ended = [trial for trial in self._finished() if trial.state == TrialState.COMPLETE]
        if not ended:
            return None
        best = max(ended, key=lambda trial: (trial.value or 0.0, -trial.number))
        return Best(best.number, best.value or 0.0, self._complete(best.user_attrs["settings"]))

    def ask(self) -> Proposal:
        """Propose an attack."""
        at = self.started
        if self._left:
            self._study.enqueue_trial(self._left.pop(0))
        elif at < len(self._known):
            self._study.enqueue_trial(self._known[at])
        name = f"{self.name}|{self._seed}|{at}"
        self._study.sampler = TPESampler(seed=int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big"))
        trial = self._study.ask()
        settings = self.space.propose(trial)
        proposed = self._complete(settings)
        own = digest(proposed)
        before = next((each for each in self._finished() if each.user_attrs.get("digest") == own), None)
        trial.set_user_attr("settings", settings)
        trial.set_user_attr("digest", own)
        self._trials[trial.number] = trial
        known = None if before is None or before.state != TrialState.COMPLETE else before.value
        return Proposal(trial.number, proposed, known)

    def report(self, number: int, round_: int, harm: float) -> bool:
        """Note what an attack achieved after a round; return whether it is worth continuing.

        A third of the rounds is granted from the start of the attack: patient attackers win late.
        """
        trial = self._trials[number]
        trial.report(harm, round_)
        patience = trial.params["attack_from"] + self.space.rounds // 3
        return round_ < patience or not trial.should_prune()

    def finish(self, number: int, harm: float, **measured: float | None) -> None:
        """Note what an attack achieved in the end."""
        trial = self._trials.pop(number)
        for name, value in measured.items():
            trial.set_user_attr(name, value)
        self._study.tell(trial, harm)

    def stop(self, number: int) -> None:
        """Note that an attack was stopped early."""
        self._study.tell(self._trials.pop(number), state=TrialState.PRUNED)

    def _finished(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=_DONE)

    def _complete(self, settings: dict[str, Any]) -> Experiment:
        try:
            return experiment({**plain(self.target), **settings})
        except ConfigError as error:
            raise ConfigError(f"{self.label}: the proposed {settings['attack']} is refused: {error}") from None
