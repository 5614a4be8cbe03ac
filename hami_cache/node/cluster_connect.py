"""From a kubeconfig or a pod's service account to an HTTP client for the API server.

lightkube does it: contexts, certificates, login helpers, and tokens that it reads again when the
server no longer takes them. It is imported only when a connection is wanted.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hami_cache.errors import ConfigError
from hami_cache.node.cluster_error import ClusterError

if TYPE_CHECKING:
    import httpx2
    from lightkube.config.kubeconfig import SingleConfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token and the cluster's certificate authority."""


def require_cluster(kubeconfig: Path | None) -> None:
    """Make sure that there is a cluster to talk to and a library to do it with; asks nobody.

    Raises:
        ConfigError: there is not, and waiting will not change it.
    """
    try:
        importlib.import_module("lightkube")
    except ImportError as error:
        raise ConfigError(
            f"the Kubernetes client is not installed: {error}",
            hint="pip install 'hami-cache[cluster]'",
        ) from None
    if kubeconfig is None and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        raise ConfigError(
            "this is not a pod of a cluster, and there is no kubeconfig",
            field="KUBECONFIG",
            hint="set it, or run as a pod with a service account",
        )


def connect(kubeconfig: Path | None, service_account: Path = SERVICE_ACCOUNT) -> httpx2.Client:
    """An HTTP client for the API server; nothing is sent yet.

    Args:
        kubeconfig: its current context is used; without it, the service account.
        service_account: the directory of the service account, used with the address in the
            environment variables `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`.

    Raises:
        ClusterError: `config`. The files are read anew each time, so it can heal.
    """
    from lightkube.config.client_adapter import Client, ConnectionParams
    from lightkube.config.models import User

    source = kubeconfig or service_account
    try:
        config = _read(kubeconfig, service_account)
        client = Client(config._replace(user=config.user or User()), ConnectionParams())
    except Exception as error:
        # Hand-written YAML fails in every way a parser, a decoder or a TLS library knows.
        raise ClusterError(f"{source}: {_without_secrets(error)}", "config") from None
    client.headers["User-Agent"] = "hami-cache"
    return client


def _read(kubeconfig: Path | None, service_account: Path) -> SingleConfig:
    from lightkube.config.kubeconfig import KubeConfig

    found = (
        KubeConfig.from_file(kubeconfig)
        if kubeconfig
        else KubeConfig.from_service_account(service_account)
    )
    config = found.get()
    if config is None:
        raise ValueError("no current context")
    return config


def _without_secrets(error: Exception) -> str:
    """What is wrong, without the lines of the file that a YAML error quotes."""
    import yaml

    if isinstance(error, yaml.MarkedYAMLError):
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        return f"{error.problem}{line}"
    if isinstance(error, KeyError):
        return f"{error} is not there"
    return str(error) or type(error).__name__
