"""`f2ed operator`: Flower's command line for a SuperLink whose control routes ask for a certificate."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from f2ed.flower.operator_client import run_flwr

__all__ = ["operator"]


def operator(
    *words: Annotated[str, Parameter(help="A command of flwr, after --.")],
    certificate: Annotated[Path, Parameter(help="The operator's certificate.")] = Path("operator.crt"),
    key: Annotated[Path, Parameter(help="Its private key.")] = Path("operator.key"),
) -> None:
    """Run a command of flwr with a client certificate.

    The address of the SuperLink is the operators' port of its proxy, in $FLWR_HOME/config.toml as usual.

    Example: f2ed operator --certificate operator.crt --key operator.key -- run examples/04_flower clinics --stream
    """
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    run_flwr(words, certificate, key)
