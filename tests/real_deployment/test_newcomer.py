"""The newcomer's path: the twelve commands of the page, typed as they stand, lead to a federation that trains."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from f2ed.flower.processes import free_ports, kill_each
from f2ed.records import read

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "first_federation.md").read_text()
SECTION = PAGE.partition("## As eight sites")[2].partition("\n## ")[0]
COMMANDS = [
    line.rstrip()
    for block in re.findall(r"^```sh\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
INSTALL = 2


def test_there_are_at_most_twelve_and_they_are_counted():
    numbers = [int(re.search(r"# (\d+)$", line)[1]) for line in COMMANDS]
    assert numbers == list(range(1, len(COMMANDS) + 1))
    assert len(COMMANDS) <= 12
    install = SECTION[SECTION.index("<!-- install -->") :]
    assert all(line in install[: install.index("**The authority**")] for line in COMMANDS[:INSTALL])


def at_home_in(folder):
    """Return the processes whose current folder is this one."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [int(each.name)] * (each / "cwd").readlink().is_relative_to(folder)
    return found


@pytest.mark.nightly
def test_the_commands_lead_to_eight_nodes_that_train(tmp_path):
    ports = free_ports()
    port, nodes = next(ports), [next(ports) for _ in range(8)]
    script = "\n".join(COMMANDS[INSTALL:])
    assert script.count("127.0.0.1:8000") == 3
    script = script.replace("127.0.0.1:8000", f"127.0.0.1:{port}").replace("--port 8000", f"--port {port}")
    script = script.replace("--port 910$i", "--port ${ports[$i]}").replace("examples/", f"{ROOT}/examples/")
    places = f"ports=({' '.join(map(str, nodes))})"
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "OMP_NUM_THREADS": "1",
    }
    with (tmp_path / "out.log").open("w") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"set -e\n{places}\n{script}\nkill $(jobs -p)\nwait"],
            cwd=tmp_path,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(1500)
        finally:
            left = at_home_in(tmp_path)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            kill_each(left)
    printed = (tmp_path / "out.log").read_text()
    assert status == 0, printed[-3000:]
    assert left == [], "kill $(jobs -p) stops everything"
    records = read(tmp_path / "run.jsonl")
    assert records.finished
    assert [record.crowd for record in records.rounds] == [4, 4, 4]
    assert all(record.skipped is None for record in records.rounds)
