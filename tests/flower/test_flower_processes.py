"""Ports and processes of a deployment on this machine."""

import socket
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from f2ed import ConfigError
from f2ed.core.errors import PeerError
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import check_countersigned
from f2ed.flower.local_deployment import Deployment
from f2ed.flower.processes import HOST, descendants, free_ports, kill_each, tool
from f2ed.flower.run_status import check_status
from f2ed.flower.trial_roster import TrialHelpers
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.protocol.secagg import public_key

APP = Path(__file__).parents[1] / "real_deployment" / "app"


def test_a_port_that_is_taken_is_passed_over_and_none_comes_twice():
    taken, following = islice(free_ports(), 2)
    with socket.socket() as other:
        other.bind((HOST, taken))
        ports = list(islice(free_ports(), 5))
    assert taken not in ports
    assert following in ports
    assert len(set(ports)) == 5


def test_the_children_of_children_are_found_and_ended():
    grandchild = "sh -c 'echo up; exec sleep 600' & wait"
    command = ["sh", "-c", f'sh -c "{grandchild}" & wait']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n"
        found = descendants([process.pid])
        assert len(found) == 2
        kill_each([process.pid, *found])
        assert process.wait(60) != 0
    kill_each(found)  # Those that have ended are no reason to complain.


def test_a_command_that_is_not_installed_is_named():
    with pytest.raises(ConfigError, match="flower-nonsense is not installed"):
        tool("flower-nonsense")


def test_a_node_is_replaced_only_while_there_are_spare_keys(tmp_path):
    deployment = Deployment(tmp_path, nodes=3, shards=1, min_crowd=3, app=APP)
    with pytest.raises(ConfigError, match="no spare key is left"):
        deployment.replace_node(0)


def test_the_helpers_of_a_trial_are_operators_with_folders_and_keys_of_their_own(tmp_path):
    settings = HelpersProtocol(size=3)
    deployment = Deployment(tmp_path, nodes=6, shards=2, min_crowd=3, app=APP, helpers=TrialHelpers(settings))
    check_countersigned(deployment.roster)
    parties = {each.role: each.key for each in deployment.roster.helpers.parties}
    parties["server"] = deployment.roster.server
    for role, key in parties.items():
        assert public_key(read_private(tmp_path / role / f"{role}.key")) == key
        assert (tmp_path / role).stat().st_mode & 0o77 == 0
    assert sorted(each.name for each in (tmp_path / "nodes").glob("node_[67]")) == ["node_6", "node_7"]
    deployment.approve(APP)
    check_countersigned(deployment.roster)
    assert deployment.roster.serial == 2


@pytest.mark.parametrize("name", ["f2ed.deployment", "f2ed.flower"])
def test_what_f2ed_logs_is_shown_once_where_flower_shows_its_own(name):
    code = f"""
import logging, warnings
warnings.simplefilter("ignore")
import f2ed.flower, flwr.supercore.logger
logging.getLogger({name!r}).info("f2ed: a message")
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (shown.stdout + shown.stderr).count("f2ed: a message") == 1


def test_a_run_that_failed_is_no_success_although_flwr_run_says_so():
    def listed(status):
        return f'{{"runs": [{{"status": "{status}", "status-details": "boom"}}]}}'

    assert check_status(listed("finished:completed"), "7")
    assert not check_status(listed("running"), "7")
    for status in ("finished:failed", "finished:stopped"):
        with pytest.raises(PeerError, match=f"ended as {status.partition(':')[2]}; boom"):
            check_status(listed(status), "7")
    with pytest.raises(PeerError, match="is not known"):
        check_status("no SuperLink", "7")
    silent = listed("finished:failed").replace("boom", "No heartbeat received from the task")
    with pytest.raises(PeerError, match="No heartbeat received from the task: its ServerApp was killed, or the SuperL"):
        check_status(silent, "7")
