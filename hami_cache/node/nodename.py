"""The name of this node: given, or guessed and then never trusted with a deletion."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeName:
    """A node's name and whether nobody gave it."""

    name: str
    guessed: bool


def node_name() -> NodeName:
    """``NODE_NAME``, else the host name with a warning: Kubernetes may know the node by another."""
    given = os.environ.get("NODE_NAME", "")
    if given:
        return NodeName(given, guessed=False)
    guess = socket.gethostname()
    log.warning("NODE_NAME is not set: taking the host name %r, and removing nothing by it", guess)
    return NodeName(guess, guessed=True)
