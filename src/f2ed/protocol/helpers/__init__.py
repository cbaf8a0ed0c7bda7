"""The whole cohort as the crowd: client-level robustness with two helper parties besides the server.

The server, the mixer and the judge, of whom no two collude, compute the Gram matrix of all updates on shares. The judge
sees that matrix and decides who is in the sum; the server opens that one sum. Nobody sees an update.
"""

from f2ed.protocol.helpers.client import HelpedClient, encoded, respond_as_client
from f2ed.protocol.helpers.judge import respond_as_judge
from f2ed.protocol.helpers.machine import Answer, Helper, begin_job, continue_job, follow_job
from f2ed.protocol.helpers.mixer import respond_as_mixer
from f2ed.protocol.helpers.outcome import STRUCK, HelpersOutcome, ServerGuard, ServerTask
from f2ed.protocol.helpers.plain import plain_mean
from f2ed.protocol.helpers.secret_rows import SecretRows, check_rule
from f2ed.protocol.helpers.server import helped_mean
from f2ed.protocol.helpers.server_rows import MemoryRows, RowStore
from f2ed.protocol.helpers.settings import Guard, HelpersProtocol, Party, helper_terms
from f2ed.protocol.helpers.terms import JUDGE, MIXER, ROLES, SERVER, Relay, Role, Terms
from f2ed.protocol.helpers.terms import check as check_terms
from f2ed.protocol.helpers.verdict import rule_bytes

__all__ = [
    "JUDGE",
    "MIXER",
    "ROLES",
    "SERVER",
    "STRUCK",
    "Answer",
    "Guard",
    "HelpedClient",
    "Helper",
    "HelpersOutcome",
    "HelpersProtocol",
    "MemoryRows",
    "Party",
    "Relay",
    "Role",
    "RowStore",
    "SecretRows",
    "ServerGuard",
    "ServerTask",
    "Terms",
    "begin_job",
    "check_rule",
    "check_terms",
    "continue_job",
    "encoded",
    "follow_job",
    "helped_mean",
    "helper_terms",
    "plain_mean",
    "respond_as_client",
    "respond_as_judge",
    "respond_as_mixer",
    "rule_bytes",
]
