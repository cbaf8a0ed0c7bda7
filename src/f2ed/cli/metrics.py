"""`f2ed metrics`: a deployment's records for Prometheus."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.deployment.doctor.checks import healthy
from f2ed.deployment.exporter import serve_metrics
from f2ed.deployment.health import MAX_AGE, run_health
from f2ed.deployment.metrics import certificate_sample, exposition, run_samples, watch_records

__all__ = ["metrics"]


def metrics(
    *records: Annotated[Path, Parameter(help="Record files of deployments; they may not exist yet.")],
    certificate: Annotated[
        tuple[Path, ...], Parameter(negative="", help="Also tell when this certificate expires; may be repeated.")
    ] = (),
    out: Annotated[
        Path | None, Parameter(name=["--out", "-o"], help="Write this file, for node_exporter's textfile collector.")
    ] = None,
    every: Annotated[float, Parameter(help="Write it again every so many seconds; 0 writes once.")] = 0.0,
    port: Annotated[int | None, Parameter(help="Serve /metrics and /health on this port; 0 picks a free one.")] = None,
    host: Annotated[str, Parameter(help="The address to serve on; any but loopback exposes them.")] = "127.0.0.1",
    max_age: Annotated[float, Parameter(help="For /health: seconds without a round that are too many.")] = MAX_AGE,
) -> None:
    """Turn the records of a deployment into Prometheus metrics.

    They are printed, written to a file (--out) or served (--port). Everything comes from the file of records and the
    note beside it, while the run goes on. Names of clients are among the labels; nothing of any update is.

    Example: f2ed metrics run.jsonl

    Example: f2ed metrics run.jsonl --out /var/lib/node_exporter/f2ed.prom --every 15

    Example: f2ed metrics run.jsonl --port 9464 --certificate server.pem
    """
    if not records and not certificate:
        raise ConfigError("no records given; name the file that F2ed(records=…) writes")
    if out is not None and port is not None:
        raise ConfigError("--out and --port; choose one of them")
    if every < 0 or (every and out is None):
        raise ConfigError(f"--every {every:g}; it takes --out, and seconds above 0")
    if port is not None:
        _serve(records, certificate, host, port, max_age)
    elif out is None:
        sys.stdout.write(_text(records, certificate, missing=False))
    else:
        _write(records, certificate, out, every)


def _text(records: Sequence[Path], certificates: Sequence[Path], *, missing: bool = True) -> str:
    """Return all metrics; records that do not exist yet are left out, if they may be `missing`."""
    found = [run_samples(watch_records(path)) for path in records if path.exists() or not missing]
    return exposition(
        sample for samples in (*found, [certificate_sample(path) for path in certificates]) for sample in samples
    )


def _write(records: Sequence[Path], certificates: Sequence[Path], out: Path, every: float) -> None:
    while True:
        try:
            write_atomic(out, _text(records, certificates).encode(), mode=0o644)
        except OSError as error:
            raise ConfigError(f"{out} cannot be written: {error.strerror}; name another file") from None
        if not every:
            return
        time.sleep(every)


def _serve(records: Sequence[Path], certificates: Sequence[Path], host: str, port: int, max_age: float) -> None:
    def health() -> str:
        checks = [run_health(path, max_age=max_age) for path in records if path.exists()]
        lines = "".join(f"{check.status} {check.name}: {check.found}\n" for check in checks)
        if not healthy(checks):
            raise ConfigError(lines.strip())
        return lines or "no records yet\n"

    with serve_metrics(lambda: _text(records, certificates), health, host=host, port=port) as address:
        Console(highlight=False).print(f"Serving {address}/metrics and {address}/health (Ctrl-C stops)")
        _until_interrupted()


def _until_interrupted() -> None:
    while True:
        time.sleep(3600)
