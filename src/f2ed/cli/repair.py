"""`f2ed repair`: clean a trained model up on a few trusted samples, and report what that changed."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from torch import nn

from f2ed.attacks import EvaluationData, Examples, Palette
from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.learning import Data, Evaluator, Samples, flatten, load
from f2ed.learning.repair import Method, Repair
from f2ed.learning.saved import save_model, saved_vector
from f2ed.records.migration import migrate_settings
from f2ed.records.reader import read
from f2ed.simulation.config import Experiment, experiment

__all__ = ["repair"]


class Effect(msgspec.Struct, frozen=True):
    """A model on the test data: its accuracy, and the success of the run's backdoor where there was one."""

    accuracy: float | None
    success: float | None = None


def repair(
    record: Annotated[Path, Parameter(help="The record of a finished run (.jsonl): its data, model and attack.")],
    /,
    *,
    model: Annotated[
        Path | None, Parameter(help="The saved model; by default the one that f2ed run --save-model put beside it.")
    ] = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="Where to save the repaired model.")] = None,
    method: Annotated[Method, Parameter(help="How: see below.")] = "unlearn",
    samples: Annotated[int, Parameter(help="Number of trusted samples, drawn from the training data.")] = 500,
    epochs: Annotated[int, Parameter(help="Passes over the trusted samples.")] = 60,
    lr: Annotated[float, Parameter(help="Learning rate.")] = 0.05,
    radius: Annotated[
        float, Parameter(help="Largest norm of the perturbation that unlearn looks for; from black to white is 1.")
    ] = 2.0,
    data: Annotated[Path | None, Parameter(help="Look for data sets here first.")] = None,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """Repair a trained model on trusted samples, and compare it.

    fine-tune trains on the trusted samples. fine-prune first removes the inputs of the last dense layer that are least
    active on them. unlearn looks for a perturbation that misleads the model on all of them, and trains it away. The
    accuracy on the test data, and the success of the run's backdoor if it had one, are printed for the model before and
    after; no trigger is used for the repair.

    Example: f2ed repair runs/demo/RUN.jsonl --method fine-prune -o repaired.safetensors
    """
    settings = experiment(migrate_settings(read(record).header.settings))
    if samples < 1:
        raise ConfigError(f"--samples {samples}: use at least 1")
    place = model or record.with_suffix(".safetensors")
    if not place.exists():
        raise ConfigError(f"there is no model {place}; run with f2ed run --save-model, or name one with --model")
    found = settings.data.load(data)
    module = settings.model(found.shape, settings.task.outputs(found), settings.seed)
    load(module, saved_vector(place, module))
    rule = Repair(method=method, epochs=epochs, lr=lr, radius=radius, seed=settings.seed)
    repaired = rule(module, _trusted(found, samples, settings.seed), contrast=found.white - found.black)
    before, after = (_effect(settings, found, each) for each in (module, repaired))
    if out is not None:
        save_model(out, repaired, repaired=method)
    if json:
        sys.stdout.write(msgspec.json.encode({"before": before, "after": after}).decode() + "\n")
        return
    for name, effect in (("before", before), ("after", after)):
        success = "" if effect.success is None else f", backdoor {100 * effect.success:.1f} %"
        accuracy = "" if effect.accuracy is None else f"accuracy {100 * effect.accuracy:.1f} %"
        sys.stdout.write(f"{name}: {accuracy}{success}\n")
    if out is not None:
        sys.stdout.write(f"Saved: {out}\n")


def _trusted(data: Data, count: int, seed: int) -> Samples:
    drawn = stream(seed, "root").permutation(len(data.train))[:count]
    return Samples(data.train.images[drawn], data.train.labels[drawn])


def _effect(settings: Experiment, data: Data, model: nn.Module) -> Effect:
    evaluator, weights = Evaluator(model, loss=settings.task), flatten(model)
    goal = None
    if settings.attack is not None:
        test = Examples(data.test.images, data.test.labels)
        rng = stream(settings.seed, "goal")
        goal = settings.attack.goal(EvaluationData(test, data.classes, Palette(data.black, data.white), rng))
    success = None if goal is None else goal.success(evaluator.predictions(weights, goal.images)).others
    return Effect(evaluator.score(weights, data.test).accuracy, success)
