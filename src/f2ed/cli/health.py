"""`f2ed health`: a probe for supervisors."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.cli.check_table import report_checks
from f2ed.core.errors import ConfigError
from f2ed.deployment.health import MAX_AGE, node_health, run_health, superlink_health

__all__ = ["health"]


def health(
    *,
    records: Annotated[Path | None, Parameter(help="Records of a run: is it alive, and does it progress?")] = None,
    max_age: Annotated[float, Parameter(help="Seconds without a finished round that are too many.")] = MAX_AGE,
    superlink: Annotated[str, Parameter(help="Address of a SuperLink or its proxy: does it answer?")] = "",
    root_certificates: Annotated[Path | None, Parameter(help="The CA of its certificate.")] = None,
    node: Annotated[str, Parameter(help="Address of f2ed node on this machine: does it answer?")] = "",
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
) -> None:
    """Probe a run, a SuperLink or a node.

    The exit status is 0 if all that is named is healthy, and 1 otherwise. A run that waits for clients is healthy until
    --max-age has passed; one that has finished stays healthy.

    Example: f2ed health --superlink 127.0.0.1:8001 --root-certificates /etc/f2ed/ca.crt

    Example: f2ed health --records run.jsonl --max-age 3600

    Example: f2ed health --node 127.0.0.1:9094
    """
    checks = []
    if superlink:
        if root_certificates is None:
            raise ConfigError("--superlink without --root-certificates; name the CA of its certificate")
        checks.append(superlink_health(superlink, root_certificates))
    if node:
        checks.append(node_health(node))
    if records is not None:
        checks.append(run_health(records, max_age=max_age))
    if not checks:
        raise ConfigError("nothing to probe; name --superlink, --node or --records")
    report_checks(checks, json=json)
