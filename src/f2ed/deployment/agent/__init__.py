"""The node's agent: it holds the identity key and all that a node remembers, and answers apps on a Unix socket.

An app's process describes the message that it received, trains when it is told to, and hands over the update. The agent
checks, clips, adds noise, masks, signs and stores, with the same functions as a node without an agent. It composes
everything that it signs. An approved app still sees the data, and what it trains on is its own affair.
"""

from f2ed.deployment.agent.client import AGENT, ask_agent
from f2ed.deployment.agent.server import Agent

__all__ = ["AGENT", "Agent", "ask_agent"]
