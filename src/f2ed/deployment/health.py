"""Health probes: whether a SuperLink or a SuperNode answers, and whether a run makes progress."""

import http.client
from datetime import UTC, datetime
from pathlib import Path

from f2ed.core.errors import F2edError
from f2ed.deployment.doctor.checks import Check, attempt, failed, ok, warning
from f2ed.deployment.doctor.connection import contact, host_and_port
from f2ed.deployment.metrics import Watched, watch_records

__all__ = ["MAX_AGE", "node_health", "run_health", "superlink_health"]

MAX_AGE = 7200.0
"""Seconds without a finished round after which a run is not healthy, unless said otherwise."""


def run_health(records: Path, *, max_age: float = MAX_AGE, now: datetime | None = None) -> Check:
    """Judge a run by its records: whether it is alive, and when it finished a round last."""
    try:
        watched = watch_records(records)
    except F2edError as error:
        return attempt("run", error, "has the run begun?")
    log, state = watched.log, watched.state
    done = f"{len(log.rounds)} of {log.header.rounds} rounds"
    if log.finished:
        return ok("run", f"finished: {done}")
    if state is None or not watched.held:
        return failed("run", f"no run is using {records}; it ended after {done}", "submit it again, see its log")
    silent = _silence(watched, now or datetime.now(UTC))
    if silent > max_age:
        why = f"; it waits: {state.waiting}" if state.waiting else ""
        remedy = "start the nodes that are absent" if state.waiting else "see the server's log"
        return failed("run", f"no round has finished for {silent:.0f} s, after {done}{why}", remedy)
    if state.waiting:
        return warning("run", f"waits before round {state.round}: {state.waiting}", "start the nodes that are absent")
    return ok("run", f"in round {state.round}, after {done}")


def superlink_health(address: str, ca: Path) -> Check:
    """Ask a SuperLink, or the proxy in front of it, over TLS."""
    try:
        reading = contact(address, ca)
    except F2edError as error:
        return attempt("superlink", error)
    return failed("superlink", reading.problem, reading.remedy) if reading.problem else ok("superlink", "answers")


def node_health(address: str) -> Check:
    """Ask a SuperNode on its own machine, whose API has no TLS."""
    try:
        host, port = host_and_port(address)
        connection = http.client.HTTPConnection(host, port, timeout=5)
        try:
            connection.request("GET", "/health")
            status = connection.getresponse().status
        finally:
            connection.close()
    except F2edError as error:
        return attempt("node", error)
    except (OSError, http.client.HTTPException) as error:
        return failed("node", f"{address} cannot be reached: {error}", "is f2ed node running? See its log")
    if status != http.HTTPStatus.OK:
        return failed("node", f"{address} answers with status {status}", "is this the port of f2ed node?")
    return ok("node", "answers")


def _silence(watched: Watched, now: datetime) -> float:
    """Return the seconds since the last round ended, or since the run began."""
    rounds = watched.log.rounds
    last = (rounds[-1].ended if rounds else "") or watched.log.header.started
    noted = watched.state.noted if watched.state and not watched.state.waiting else ""
    moments = [datetime.fromisoformat(each) for each in (last, noted) if each]
    return (now - max(moments)).total_seconds() if moments else 0.0
