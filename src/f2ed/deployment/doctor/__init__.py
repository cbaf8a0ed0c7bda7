"""Checks of a node and of a server before and while they run: `f2ed doctor`, and what `f2ed node` says by itself."""

from f2ed.deployment.doctor.checks import Check, healthy
from f2ed.deployment.doctor.connection import Reading, connection_checks, contact
from f2ed.deployment.doctor.node import NodeFiles, node_checks
from f2ed.deployment.doctor.server import ServerFiles, server_checks

__all__ = [
    "Check",
    "NodeFiles",
    "Reading",
    "ServerFiles",
    "connection_checks",
    "contact",
    "healthy",
    "node_checks",
    "server_checks",
]
