"""``--pods SPEC``: where a command learns about the node's pods."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hami_cache.errors import ConfigError
from hami_cache.node.nodename import NodeName, node_name
from hami_cache.node.pods import FilePods, NoPods, PodLogPods, PodSource

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_LOGS = Path("/var/log/pods")


def pods_option(default: str) -> Callable[[Function], Function]:
    """``--pods SPEC``, for `open_pods`.

    Args:
        default: the spec when the option is not given.
    """
    return click.option(
        "--pods",
        "pods_spec",
        metavar="SPEC",
        default=default,
        show_default=True,
        help="Where pods are looked up: api (this node's, NODE_NAME, KUBECONFIG), file:PATH "
        "(kubectl get pods -A -o json), podlogs[:DIR] (the kubelet's log directories), none, or "
        "auto (api inside a cluster or with KUBECONFIG, else none).",
    )


def open_pods(spec: str, node: NodeName | None = None, *, wait: float = 0.0) -> PodSource:
    """The source that a ``--pods SPEC`` names; the caller closes it.

    Args:
        spec: ``none``, ``api``, ``auto``, ``file:PATH`` or ``podlogs[:DIR]``.
        node: whose pods, NODE_NAME by default; a guessed name selects nothing from a file.
        wait: seconds to wait for the first list of ``api``; without it the view is not known yet.

    Raises:
        ConfigError: there is no such source, or it cannot be used here.
    """
    kind, _, place = spec.partition(":")
    match kind:
        case "none" if not place:
            return NoPods()
        case "file" if place:
            return FilePods(Path(place), _certain(node))
        case "podlogs":
            return PodLogPods(Path(place) if place else DEFAULT_LOGS)
        case "api" if not place:
            return _api(node or node_name(), wait)
        case "auto" if not place:
            return _api(node or node_name(), wait) if _in_reach() else NoPods()
    raise ConfigError(
        f"{spec!r} names no source of pods",
        field="--pods",
        hint="auto, api, file:PATH, podlogs[:DIR] or none",
    )


def _certain(node: NodeName | None) -> str:
    if node is None:
        return os.environ.get("NODE_NAME", "")
    return "" if node.guessed else node.name


def _in_reach() -> bool:
    return bool(os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST"))


def _api(node: NodeName, wait: float) -> PodSource:
    from hami_cache.node.cluster import ClusterPods

    path = os.environ.get("KUBECONFIG")
    kubeconfig = Path(path) if path else None
    source = ClusterPods(node.name, guessed=node.guessed, kubeconfig=kubeconfig).start()
    if wait:
        source.wait_for(lambda view: view.known, wait)
    return source
