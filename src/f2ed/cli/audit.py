"""`f2ed audit`: play a curious server, and show what it recovers."""

import sys
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter
from rich.console import Console

from f2ed.cli.problems import invalid_option
from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.core.files import append

try:
    import torch

    from f2ed.audit import Finding
    from f2ed.audit.audit import AuditSettings, Picture, audit
    from f2ed.audit.findings import RankHistory
    from f2ed.audit.images import save_png
    from f2ed.audit.summary import as_record, conclusions, markdown
    from f2ed.cli.audit_helpers import audit_helpers, coalition_settings
    from f2ed.experiments import expand
    from f2ed.experiments import read as read_experiments
    from f2ed.guarantees.leakage.forecast import ScheduleLeak
    from f2ed.learning import Data
    from f2ed.learning.datasets import MNIST, AnyDataset, Digits, Mnist
    from f2ed.learning.datasets.archive import find
    from f2ed.learning.models import Mlp
    from f2ed.records import RunLog, holds_records
    from f2ed.records import read as read_records
    from f2ed.records.findings import privacy
    from f2ed.records.migration import migrate_settings
    from f2ed.simulation import Experiment
    from f2ed.simulation.config import experiment
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise MissingExtra("f2ed audit", "train") from None

__all__ = ["command"]

_QUICK = AuditSettings(sizes=(1, 4, 16), trials=2, iterations=0, clients=40, rounds=20)


def command(
    file: Annotated[Path | None, Parameter(help="An experiment file (.toml) or the records of a run (.jsonl).")] = None,
    /,
    *,
    protocol: Annotated[
        Literal["shards", "helpers"] | None,
        Parameter(
            help="Who is audited: the server with shards, or server, mixer and judge; that of the run by default."
        ),
    ] = None,
    out: Annotated[Path, Parameter(help="Output folder for findings, page and pictures.")] = Path("audit"),
    data: Annotated[Path | None, Parameter(help="Folder to search first for data sets.")] = None,
    sizes: Annotated[str | None, Parameter(help="Shard sizes, such as 1,2,4,8,16.")] = None,
    trials: Annotated[int | None, Parameter(help="Shards per size.")] = None,
    iterations: Annotated[int | None, Parameter(help="Iterations of gradient matching; 0 skips it.")] = None,
    rounds: Annotated[int | None, Parameter(help="Rounds of the attack on single clients.")] = None,
    quick: Annotated[
        bool, Parameter(negative="", help="Fewer sizes, trials and rounds: half a minute instead of minutes.")
    ] = False,
    note: Annotated[
        bool, Parameter(negative="", help="Also append the findings to the records, for the report.")
    ] = False,
    seed: Annotated[int | None, Parameter(help="Random seed; that of the run by default, else 0.")] = None,
    json: Annotated[bool, Parameter(negative="", help="Print the findings as JSON.")] = False,
) -> None:
    """Measure what a curious server could recover.

    The server sees the mean of each shard, its members and the models; nothing else. For several shard sizes it tries
    to recover images, labels and single clients, and to infer membership. Without a file the audit uses MNIST if it is
    available, else scikit-learn's digits. With a file it uses the data, batch size, width of a dense model, clients,
    shards, schedule and rounds (at most 100 clients and rounds) of the run, or of the first run if there are several.
    Records contain no updates, so shard means are computed again from these settings, without the run's noise; what the
    leak meter measured is taken from the records.

    With helpers (--protocol helpers, or a file of a run with helpers) it plays server, mixer and judge, each alone and
    with clients that collude, beside shards of 4 of the same clients.

    Example: f2ed audit

    Example: f2ed audit --protocol helpers

    Example: f2ed audit experiments/demo.toml --out audit/demo
    """
    console = Console(highlight=False, stderr=json)
    if note and (file is None or file.suffix != ".jsonl"):
        raise ConfigError("--note needs the records of a run; give a .jsonl file")
    run, log = (None, None) if file is None else _experiment(file)
    if protocol == "helpers" or (protocol is None and run is not None and run.helpers is not None):
        shards_only = {"--sizes": sizes, "--trials": trials, "--iterations": iterations, "--note": note or None}
        if stated := [name for name, value in shards_only.items() if value is not None]:
            raise ConfigError(f"{', '.join(stated)}: only for shards; leave it out, or use --protocol shards")
        torch.set_num_threads(1)
        coalitions = coalition_settings(run, quick=quick, rounds=rounds, seed=seed)
        audit_helpers(_data(run, data), coalitions, run, out, json=json)
        return
    recorded = [] if log is None else [remark.sentence for remark in privacy([log])]
    if run is not None and run.dp is not None:
        recorded.append(
            f"The run's noise (noise_multiplier {run.dp.noise_multiplier:g}) is left out: this audit shows the server "
            "means without noise, which reveal more than those of the run."
        )
    given = {"trials": trials, "iterations": iterations, "rounds": rounds, "seed": seed}
    settings = _settings(run, quick=quick)
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if sizes is not None:
        changed["sizes"] = _sizes(sizes)
    settings = _checked(msgspec.structs.replace(settings, **changed))
    chosen = _data(run, data)
    # The tensors are small: several threads per operation would mostly wait for each other.
    torch.set_num_threads(1)
    console.print(f"Auditing shard means on {chosen[0]}.")
    results = _play(chosen[1], settings, out, console)
    findings, seconds = results.findings, results.seconds
    _write(out, chosen[0], settings, results, recorded)
    if note and file is not None:
        _note(file, out, results)
    if json:
        sys.stdout.write((out / "audit.json").read_text(encoding="utf-8"))
        return
    for sentence in (*conclusions(findings), *recorded):
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"\nFinished in {seconds:.0f} s. See {out / 'audit.md'} and the pictures next to it.", soft_wrap=True)


@dataclass
class _AuditResults:
    """The results of an audit."""

    findings: list[Finding] = field(default_factory=list)
    histories: list[RankHistory] = field(default_factory=list)
    leaks: list[ScheduleLeak] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


def _play(data: Data, settings: AuditSettings, out: Path, console: Console) -> _AuditResults:
    """Run the audit, and write pictures as they come."""
    out.mkdir(parents=True, exist_ok=True)
    results, began = _AuditResults(), time.monotonic()
    for found in audit(data, settings):
        if isinstance(found, str):
            console.print(f"{time.monotonic() - began:4.0f} s  {found}", soft_wrap=True)
        elif isinstance(found, Picture):
            save_png(out / f"{found.name}.png", found.pixels, scale=3 if max(data.shape[1:]) > 16 else 8)
            results.pictures.append((f"{found.name}.png", found.caption))
        elif isinstance(found, ScheduleLeak):
            results.leaks.append(found)
        elif isinstance(found, RankHistory):
            results.histories.append(found)
        else:
            results.findings.append(found)
    results.seconds = time.monotonic() - began
    return results


def _note(file: Path, out: Path, results: _AuditResults) -> None:
    """Append findings and pictures to the records of a run, where the report finds them."""
    lines: list[dict[str, Any]] = [as_record(finding) for finding in results.findings]
    for name, caption in results.pictures:
        png = b64encode((out / name).read_bytes()).decode()
        lines.append({"record": "picture", "caption": caption, "png": png})
    append(file, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _write(out: Path, name: str, settings: AuditSettings, results: _AuditResults, recorded: list[str]) -> None:
    title = f"What the server learns: {name}"
    page = markdown(title, results.findings, results.leaks, results.pictures, results.histories, recorded)
    (out / "audit.md").write_text(page, encoding="utf-8")
    found = {
        "data": name,
        "settings": settings,
        "seconds": round(results.seconds, 1),
        "torch": str(torch.__version__),
        "conclusions": conclusions(results.findings),
        "recorded": recorded,
        "findings": results.findings,
        "rounds": results.histories,
        "leaks": results.leaks,
        "pictures": [file for file, _ in results.pictures],
    }
    text = msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"
    (out / "audit.json").write_text(text, encoding="utf-8")


def _experiment(file: Path) -> tuple[Experiment, RunLog | None]:
    """Return the settings of a run, and its records if the file contains any."""
    if holds_records(file):
        log = read_records(file)
        return experiment(migrate_settings(log.header.settings)), log
    if file.suffix == ".toml":
        return expand(read_experiments(file))[0].experiment, None
    raise ConfigError(f"{file} is neither an experiment file (.toml) nor the records of a run (.jsonl)")


def _settings(run: Experiment | None, *, quick: bool) -> AuditSettings:
    """Use the settings of the run where the audit has them."""
    settings = _QUICK if quick else AuditSettings()
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


def _checked(settings: AuditSettings) -> AuditSettings:
    """Check the options against the bounds of the settings."""
    try:
        return msgspec.convert(msgspec.to_builtins(settings), AuditSettings)
    except msgspec.ValidationError as wrong:
        raise invalid_option(wrong) from None


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ConfigError(f"--sizes {text}: expected whole numbers separated by commas, such as 1,2,4,8,16")
    return tuple(map(int, parts))


def _data(run: Experiment | None, folder: Path | None) -> tuple[str, Data]:
    """Return the data and its name; without a run, MNIST, or digits if MNIST is not on this machine."""
    wanted: AnyDataset = run.data if run is not None else Digits() if find(MNIST, folder) is None else Mnist()
    return str(type(wanted).__struct_config__.tag), wanted(folder)
