"""Certificates: a CA with the server's, a CA with the operator's, and the keys with which SuperNodes authenticate.

A CA's own key is discarded once its certificate is signed, so nobody can sign a second one.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from f2ed.core.errors import ConfigError
from f2ed.deployment.keyfiles import write_new

__all__ = ["Tls", "node_key", "operator_certificate", "server_certificate"]


class Tls(NamedTuple):
    """The files of a certificate."""

    ca: Path
    certificate: Path
    key: Path


def server_certificate(folder: Path, hosts: Sequence[str], *, days: int = 30) -> Tls:
    """Create a CA and a certificate for these names and addresses of the SuperLink."""
    if not hosts:
        raise ConfigError("a certificate for no host; name at least one address of the SuperLink")
    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    tls = Tls(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    return _issue(tls, hosts[0], ExtendedKeyUsageOID.SERVER_AUTH, [names], days)


def operator_certificate(folder: Path, name: str = "operator", *, days: int = 30) -> Tls:
    """Create a CA of its own, and a certificate for the person who submits runs.

    The proxy in front of the SuperLink trusts this CA alone for the control routes: a certificate of the server's CA
    opens nothing.
    """
    tls = Tls(folder / "operator_ca.crt", folder / f"{name}.crt", folder / f"{name}.key")
    return _issue(tls, name, ExtendedKeyUsageOID.CLIENT_AUTH, [], days)


def node_key(path: Path) -> Path:
    """Create the key with which a SuperNode authenticates to the SuperLink; return the path of the public key.

    It opens the connection only: identities in the protocol are the Ed25519 keys of the roster.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    public = path.with_name(path.name + ".pub")
    write_new(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), secret=True)
    write_new(public, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    return public


def _issue(
    tls: Tls, name: str, usage: x509.ObjectIdentifier, extensions: Sequence[x509.ExtensionType], days: int
) -> Tls:
    """Create a CA and one certificate of it."""
    if days < 1:
        raise ConfigError(f"a certificate for {days} days; make it valid for at least 1")
    ca_key, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    ca_name = _name(f"f2ed test CA of {name}")
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, SHA256())
    )
    issued = (
        _certificate(_name(name), ca_name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in extensions:
        issued = issued.add_extension(extension, critical=False)
    write_new(tls.ca, ca.public_bytes(Encoding.PEM))
    write_new(tls.certificate, issued.sign(ca_key, SHA256()).public_bytes(Encoding.PEM))
    write_new(tls.key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), secret=True)
    return tls


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Clocks of several hosts differ a little.
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
