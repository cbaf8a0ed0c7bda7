"""`f2ed audit`: play the curious server, and show what it recovers."""

import sys
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.console import Console

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.core.files import append

try:
    import torch

    from f2ed.audit import Finding
    from f2ed.audit.audit import Picture, Settings, audit
    from f2ed.audit.findings import Course
    from f2ed.audit.images import save_png
    from f2ed.audit.summary import as_record, markdown, verdict
    from f2ed.experiments import expand
    from f2ed.experiments import read as read_experiments
    from f2ed.guarantees.leakage.forecast import ScheduleLeak
    from f2ed.learning import Data
    from f2ed.learning.datasets import MNIST, AnyDataset, Digits, Mnist
    from f2ed.learning.datasets.archive import find
    from f2ed.learning.models import Mlp
    from f2ed.records import RunLog, holds_records
    from f2ed.records import read as read_records
    from f2ed.records.text import privacy
    from f2ed.simulation import Experiment
    from f2ed.simulation.config import experiment
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise MissingExtra("f2ed audit", "train") from None

__all__ = ["command"]

_QUICK = Settings(sizes=(1, 4, 16), trials=2, iterations=0, clients=40, rounds=20)


def command(
    file: Annotated[Path | None, Parameter(help="An experiment file (.toml) or the records of a run (.jsonl).")] = None,
    /,
    *,
    out: Annotated[Path, Parameter(help="The folder for findings, page and pictures.")] = Path("audit"),
    data: Annotated[Path | None, Parameter(help="Look for data sets here first.")] = None,
    sizes: Annotated[str | None, Parameter(help="Sizes of shards, such as 1,2,4,8,16.")] = None,
    trials: Annotated[int | None, Parameter(help="Shards of each size.")] = None,
    iterations: Annotated[int | None, Parameter(help="Of the attack by optimization; 0 leaves it out.")] = None,
    rounds: Annotated[int | None, Parameter(help="Over which single clients are solved for.")] = None,
    quick: Annotated[
        bool, Parameter(negative="", help="Half a minute instead of minutes: fewer of everything.")
    ] = False,
    note: Annotated[
        bool, Parameter(negative="", help="Also append the findings to the records, for a report.")
    ] = False,
    seed: Annotated[int, Parameter(help="Of everything that is drawn.")] = 0,
    json: Annotated[bool, Parameter(negative="", help="Print the findings as JSON for a program to read.")] = False,
) -> None:
    """Measure what a curious server could recover.

    The server sees the mean of each shard, who was in it, and the models; nothing else. It tries to recover images,
    labels and single clients, and to say whether an image was there, for several sizes of shards. Without a file,
    MNIST is used where it is found and scikit-learn's digits where not. With one, data, width of a dense
    model, batch, clients, shards, schedule and rounds (at most 100 of either) are the run's own; its first run, if
    the file has several. Noise is left out, which is said. Views are made anew from these settings: records hold no
    updates. What the leak meter read in the run is taken from its records.

    Example: f2ed audit

    Example: f2ed audit experiments/demo.toml --out audit/demo
    """
    console = Console(highlight=False, stderr=json)
    if note and (file is None or file.suffix != ".jsonl"):
        raise ConfigError("--note needs the records of a run: name a file that ends in .jsonl")
    run, log = (None, None) if file is None else _experiment(file)
    recorded = [] if log is None else [remark.sentence for remark in privacy([log])]
    if run is not None and run.dp is not None:
        recorded.append(
            f"The run's noise (multiplier {run.dp.noise_multiplier:g}) is left out: the server is shown means without "
            "it, and finds more here than it would there."
        )
    stated = {"trials": trials, "iterations": iterations, "rounds": rounds, "seed": seed}
    settings = _settings(run, quick=quick)
    changed: dict[str, Any] = {name: value for name, value in stated.items() if value is not None}
    if sizes is not None:
        changed["sizes"] = _sizes(sizes)
    settings = _checked(msgspec.structs.replace(settings, **changed))
    chosen = _data(run, data)
    # Tensors are small: threads of one operation would wait for each other, and worse on a busy machine.
    torch.set_num_threads(1)
    console.print(f"The server looks at {chosen[0]}.")
    haul = _play(chosen[1], settings, out, console)
    findings, seconds = haul.findings, haul.seconds
    _write(out, chosen[0], settings, haul, recorded)
    if note and file is not None:
        _note(file, out, haul)
    if json:
        sys.stdout.write((out / "audit.json").read_text(encoding="utf-8"))
        return
    for sentence in (*verdict(findings), *recorded):
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(
        f"\nLook at {out / 'audit.md'}, and at the pictures beside it. It took {seconds:.0f} s.", soft_wrap=True
    )


@dataclass
class _Haul:
    """What the audit brought."""

    findings: list[Finding] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    leaks: list[ScheduleLeak] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


def _play(data: Data, settings: Settings, out: Path, console: Console) -> _Haul:
    """Let the audit run, and write pictures as they come."""
    out.mkdir(parents=True, exist_ok=True)
    haul, began = _Haul(), time.monotonic()
    for found in audit(data, settings):
        if isinstance(found, str):
            console.print(f"{time.monotonic() - began:4.0f} s  {found}", soft_wrap=True)
        elif isinstance(found, Picture):
            save_png(out / f"{found.name}.png", found.pixels, scale=3 if max(data.shape[1:]) > 16 else 8)
            haul.pictures.append((f"{found.name}.png", found.caption))
        elif isinstance(found, ScheduleLeak):
            haul.leaks.append(found)
        elif isinstance(found, Course):
            haul.courses.append(found)
        else:
            haul.findings.append(found)
    haul.seconds = time.monotonic() - began
    return haul


def _note(file: Path, out: Path, haul: _Haul) -> None:
    """Append findings and pictures to the records of a run, from where a report takes them."""
    lines: list[dict[str, Any]] = [as_record(finding) for finding in haul.findings]
    for name, caption in haul.pictures:
        png = b64encode((out / name).read_bytes()).decode()
        lines.append({"record": "picture", "caption": caption, "png": png})
    append(file, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _write(out: Path, name: str, settings: Settings, haul: _Haul, recorded: list[str]) -> None:
    title = f"What the server learns: {name}"
    page = markdown(title, haul.findings, haul.leaks, haul.pictures, haul.courses, recorded)
    (out / "audit.md").write_text(page, encoding="utf-8")
    found = {
        "data": name,
        "settings": settings,
        "seconds": round(haul.seconds, 1),
        "torch": str(torch.__version__),
        "verdict": verdict(haul.findings),
        "recorded": recorded,
        "findings": haul.findings,
        "rounds": haul.courses,
        "leaks": haul.leaks,
        "pictures": [file for file, _ in haul.pictures],
    }
    text = msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"
    (out / "audit.json").write_text(text, encoding="utf-8")


def _experiment(file: Path) -> tuple[Experiment, RunLog | None]:
    """Return the settings of a run, and its records where the file holds some."""
    if holds_records(file):
        log = read_records(file)
        return experiment(log.header.settings), log
    if file.suffix == ".toml":
        return expand(read_experiments(file))[0].experiment, None
    raise ConfigError(f"{file} is neither an experiment file (.toml) nor the records of a run (.jsonl)")


def _settings(run: Experiment | None, *, quick: bool) -> Settings:
    """Take over what the run states and the audit can use."""
    settings = _QUICK if quick else Settings()
    if run is None:
        return settings
    clients = min(run.clients, settings.clients)
    return msgspec.structs.replace(
        settings,
        batch_size=run.training.batch_size,
        hidden=run.model.hidden[0] if isinstance(run.model, Mlp) and run.model.hidden else settings.hidden,
        clients=clients,
        shard=max(2, min(run.clients // run.rows, clients // 2)),
        rounds=max(10, min(run.rounds, settings.rounds)),
        schedule=run.schedule,
        client_dropout=run.client_dropout or settings.client_dropout,
        seed=run.seed,
    )


def _checked(settings: Settings) -> Settings:
    """Hold what came from the command line to the bounds of the settings."""
    try:
        return msgspec.convert(msgspec.to_builtins(settings), Settings)
    except msgspec.ValidationError as wrong:
        raise ConfigError(f"the audit cannot be run so: {wrong}") from None


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ConfigError(f"--sizes {text}: wanted whole numbers with commas between them, such as 1,2,4,8,16")
    return tuple(map(int, parts))


def _data(run: Experiment | None, folder: Path | None) -> tuple[str, Data]:
    """Return the data with its name; without a run, digits where MNIST is not on this machine."""
    wanted: AnyDataset = run.data if run is not None else Digits() if find(MNIST, folder) is None else Mnist()
    return str(type(wanted).__struct_config__.tag), wanted(folder)
