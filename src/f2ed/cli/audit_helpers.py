"""`f2ed audit --protocol helpers`: what each party and each coalition could recover."""

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch
from rich.console import Console

from f2ed.audit.coalitions import (
    CoalitionFinding,
    CoalitionSettings,
    Strip,
    audit_coalitions,
    coalition_conclusions,
    coalition_page,
)
from f2ed.audit.images import save_png
from f2ed.cli.problems import invalid_option
from f2ed.learning import Data
from f2ed.learning.models import Mlp
from f2ed.simulation import Experiment

__all__ = ["audit_helpers", "coalition_settings"]

_QUICK = CoalitionSettings(clients=40, colluders=(5, 20), rounds=(1, 20))


def coalition_settings(
    run: Experiment | None, *, quick: bool, rounds: int | None, seed: int | None
) -> CoalitionSettings:
    """Use the settings of the run where the audit has them."""
    settings = _QUICK if quick else CoalitionSettings()
    changed: dict[str, Any] = {}
    if run is not None:
        clients = max(20, min(run.clients, settings.clients))
        changed = {
            "clients": clients,
            "colluders": tuple(sorted({max(1, share * clients // settings.clients) for share in settings.colluders})),
            "batch_size": run.training.batch_size,
            "client_dropout": run.client_dropout or settings.client_dropout,
            "seed": run.seed,
        }
        if isinstance(run.model, Mlp) and run.model.hidden:
            changed["hidden"] = run.model.hidden[0]
        if run.helpers is not None:
            # The smallest sum of a larger federation would be more than all clients of the audit.
            crowd = run.helpers.crowd if run.clients == clients else None
            changed["helpers"] = msgspec.structs.replace(run.helpers, crowd=crowd)
    if rounds is not None:
        changed["rounds"] = tuple(sorted({1, min(10, rounds), rounds}))
    if seed is not None:
        changed["seed"] = seed
    try:
        return msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(settings, **changed)), CoalitionSettings)
    except msgspec.ValidationError as wrong:
        raise invalid_option(wrong) from None


@dataclass
class _Results:
    findings: list[CoalitionFinding] = field(default_factory=list)
    strips: list[Strip] = field(default_factory=list)


def audit_helpers(
    data: tuple[str, Data], settings: CoalitionSettings, run: Experiment | None, out: Path, *, json: bool
) -> None:
    """Run the audit, and write findings, page and pictures."""
    console, began, results = Console(highlight=False, stderr=json), time.monotonic(), _Results()
    out.mkdir(parents=True, exist_ok=True)
    name, samples = data
    console.print(f"Auditing server, mixer and judge on {name}.")
    rule = run.estimator if run is not None and run.helpers is not None else None
    for found in audit_coalitions(samples, settings, rule):
        if isinstance(found, str):
            console.print(f"{time.monotonic() - began:4.0f} s  {found}", soft_wrap=True)
        elif isinstance(found, CoalitionFinding):
            results.findings.append(found)
        else:
            save_png(out / f"{found.name}.png", found.pixels, scale=3 if max(samples.shape[1:]) > 16 else 8)
            results.strips.append(Strip(file=f"{found.name}.png", caption=found.caption))
    seconds = time.monotonic() - began
    page = coalition_page(f"What server, mixer and judge learn: {name}", results.findings, results.strips)
    (out / "audit.md").write_text(page, encoding="utf-8")
    record = {
        "data": name,
        "protocol": "helpers",
        "settings": settings,
        "seconds": round(seconds, 1),
        "torch": str(torch.__version__),
        "conclusions": coalition_conclusions(results.findings),
        "findings": results.findings,
        "pictures": results.strips,
    }
    text = msgspec.json.format(msgspec.json.encode(record)).decode() + "\n"
    (out / "audit.json").write_text(text, encoding="utf-8")
    if json:
        sys.stdout.write(text)
        return
    for sentence in coalition_conclusions(results.findings):
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"\nFinished in {seconds:.0f} s. See {out / 'audit.md'} and the pictures next to it.", soft_wrap=True)
