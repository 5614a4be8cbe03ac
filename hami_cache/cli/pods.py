"""``--pods SPEC``: where a command learns about the node's pods."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hami_cache.errors import ConfigError
from hami_cache.node.pods import FilePods, NoPods, PodLogPods, PodSource

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_LOGS = Path("/var/log/pods")


def pods_option(function: Function) -> Function:
    """``--pods SPEC``, for `open_pods`."""
    return click.option(
        "--pods",
        "pods_spec",
        metavar="SPEC",
        default="none",
        show_default=True,
        help="Where pods are looked up: api (this node's, NODE_NAME, KUBECONFIG), file:PATH "
        "(kubectl get pods -A -o json), logs[:DIR] (the kubelet's log directories) or none.",
    )(function)


def open_pods(spec: str, *, wait: float = 0.0) -> PodSource:
    """The source that a ``--pods SPEC`` names; the caller closes it.

    Args:
        spec: ``none``, ``api``, ``file:PATH`` or ``logs[:DIR]``.
        wait: seconds to wait for the first list of ``api``; without it the view is not known yet.

    Raises:
        ConfigError: there is no such source, or it cannot be used here.
    """
    kind, _, place = spec.partition(":")
    node = os.environ.get("NODE_NAME", "")
    match kind:
        case "none" if not place:
            return NoPods()
        case "file" if place:
            return FilePods(Path(place), node)
        case "logs":
            return PodLogPods(Path(place) if place else DEFAULT_LOGS)
        case "api" if not place:
            return _api(node, wait)
    raise ConfigError(
        f"{spec!r} names no source of pods", field="--pods", hint="api, file:PATH, logs[:DIR], none"
    )


def _api(node: str, wait: float) -> PodSource:
    from hami_cache.node.cluster import ClusterPods

    kubeconfig = os.environ.get("KUBECONFIG")
    source = ClusterPods(node, kubeconfig=Path(kubeconfig) if kubeconfig else None).start()
    if wait:
        source.wait_for(lambda view: view.known, wait)
    return source
