"""What a SuperLink answers: whether it is reached, by which certificate, and what time its clock says.

An expired certificate and a wrong clock look the same to Flower as a SuperLink that is away: it tries again. Here they
are told apart. Where the certificate is not trusted, its dates and the server's clock are read without trusting them,
to explain the failure and for nothing else.
"""

import http.client
import socket
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from f2ed.core.errors import ConfigError
from f2ed.deployment.doctor.checks import Check, failed, ok, warning

__all__ = ["MAX_SKEW", "SOON", "Reading", "connection_checks", "contact", "expiry_check", "host_and_port"]

MAX_SKEW = 60.0
"""Seconds by which two clocks may differ."""
SOON = 14
"""Days before an expiry in which it is announced."""
_EXPIRED, _NOT_YET, _OTHER_HOST = 10, 9, 62
"""OpenSSL's codes."""


class Reading(NamedTuple):
    """The outcome of an attempt to reach a SuperLink."""

    problem: str = ""
    """Why there is no trusted connection; empty if there is one."""
    remedy: str = ""
    reached: bool = False
    """Whether anything answered."""
    expires: datetime | None = None
    """Of the certificate that was shown."""
    ahead: float | None = None
    """Seconds by which this machine's clock is ahead of the server's; None if it told no time."""


def host_and_port(address: str) -> tuple[str, int]:
    """Take an address apart."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{address!r} is not an address; write host:port, as in superlink.example.org:8000")
    return host.strip("[]"), int(port)


def contact(address: str, ca: Path, *, timeout: float = 5.0) -> Reading:
    """Try to reach a SuperLink by TLS, with the certificates of a CA."""
    host, port = host_and_port(address)
    try:
        trusted = ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as error:
        return Reading(f"the CA {ca} cannot be used: {error}", "get ca.crt again from the server's operator")
    try:
        return _asked(host, port, trusted, timeout)
    except ssl.SSLCertVerificationError as error:
        return _untrusted(error, host, port, timeout)
    except ssl.SSLError as error:
        return Reading(
            f"{address} answers, and not by TLS ({error.reason})", "name the port that serves TLS", reached=True
        )
    except socket.gaierror as error:
        return Reading(f"the name {host} is not known here: {error.strerror}", "correct --superlink, or the DNS")
    except TimeoutError:
        return Reading(f"{address} did not answer within {timeout:g} s", "is it running? Let a firewall pass the port")
    except (OSError, http.client.HTTPException) as error:
        return Reading(f"{address} cannot be reached: {error}", "start it, or correct --superlink")


def connection_checks(address: str, reading: Reading, *, now: datetime) -> list[Check]:
    """Judge a reading in three checks: reachability, certificate and clock."""
    certificate = "certificate of the SuperLink"
    if reading.problem and not reading.reached:
        unknown = "not compared, since the SuperLink was not reached"
        return [
            failed("reachability", reading.problem, reading.remedy),
            warning("clock", unknown, "repeat this once it is reached"),
        ]
    checks = [ok("reachability", f"{address} answers")]
    if reading.problem:
        checks.append(failed(certificate, reading.problem, reading.remedy))
    elif reading.expires is not None:
        checks.append(expiry_check(certificate, reading.expires, now=now))
    checks.append(_clock_check(reading.ahead))
    return checks


def expiry_check(name: str, expires: datetime, *, now: datetime) -> Check:
    """Judge the last moment of a certificate."""
    left = (expires - now).days
    day = f"{expires:%Y-%m-%d %H:%M} UTC"
    renew = "renew it (f2ed certs, or your CA), and give everyone the new ca.crt if the CA is new"
    if expires <= now:
        return failed(name, f"expired on {day}", renew)
    if left < SOON:
        return warning(name, f"expires in {left} days, on {day}", renew)
    return ok(name, f"valid until {day}")


def _clock_check(ahead: float | None) -> Check:
    if ahead is None:
        return warning("clock", "the SuperLink told no time to compare with", "compare it by hand: date -u")
    if abs(ahead) > MAX_SKEW:
        found = f"this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the SuperLink"
        return failed("clock", found, "set the clock of the one that is wrong: timedatectl set-ntp true")
    return ok("clock", f"within {max(1.0, abs(ahead)):.0f} s of the SuperLink's")


def _asked(host: str, port: int, context: ssl.SSLContext, timeout: float) -> Reading:
    connection = http.client.HTTPSConnection(host, port, context=context, timeout=timeout)
    try:
        connection.connect()
        shown = connection.sock.getpeercert(binary_form=True)
        connection.request("GET", "/health")
        date = connection.getresponse().getheader("Date")
        told = None if date is None else parsedate_to_datetime(date)
    finally:
        connection.close()
    expires = None if shown is None else x509.load_der_x509_certificate(shown).not_valid_after_utc
    return Reading(reached=True, expires=expires, ahead=None if told is None else _seconds_since(told))


def _untrusted(error: ssl.SSLCertVerificationError, host: str, port: int, timeout: float) -> Reading:
    """Explain why a certificate was not trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        seen = _asked(host, port, context, timeout)
    except (OSError, http.client.HTTPException):
        seen = Reading(reached=True)
    here = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    off = seen.ahead is not None and abs(seen.ahead) > MAX_SKEW
    clock = "; the clocks differ, too: set the one that is wrong first" if off else ""
    if error.verify_code == _EXPIRED:
        when = f" on {seen.expires:%Y-%m-%d %H:%M} UTC" if seen.expires else ""
        problem = f"the certificate expired{when}, and the clock here says {here}{clock}"
        remedy = "renew it (f2ed certs, or your CA); set the clock if it is wrong"
    elif error.verify_code == _NOT_YET:
        problem, remedy = f"the certificate is not valid yet, and the clock here says {here}{clock}", "set the clock"
    elif error.verify_code == _OTHER_HOST or "ostname" in str(error) or "IP address" in str(error):
        problem = f"the certificate is for other names than {host}"
        remedy = "use a name that it is for, or have it issued for this one: f2ed certs --host"
    else:
        problem = f"the certificate is not of the CA that was given ({error.verify_message})"
        remedy = "get ca.crt again from the server's operator; if it is right, SUSPECT the server that answers"
    return seen._replace(problem=problem, remedy=remedy, reached=True)


def _seconds_since(told: datetime) -> float:
    """Return how far the clock here is ahead of a time that came with whole seconds."""
    return (datetime.now(UTC) - told).total_seconds() - 0.5
