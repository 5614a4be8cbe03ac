"""Everything in deploy/ that ends up in a cluster, rendered as operators do: helm and kustomize."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.needs import DEPLOY, run

CHART = DEPLOY / "helm" / "hami-cache"
KUSTOMIZE = DEPLOY / "kustomize"
HAMI = Path(__file__).parent / "data" / "hami-device-plugin.yaml"
IMAGE = "image.repository=registry.example.com/hami-cache"

Manifest = dict[str, Any]

BESIDE: dict[str, list[str]] = {
    "beside": [],
    "web users": ["webConfig.secretName=web"],
    "web tls": ["webConfig.secretName=web", "webConfig.scheme=https", "webConfig.probe=httpGet"],
    "host proc": ["hostProc=true", "hostPID=true"],
    "no nvml": ["nvml.enabled=false"],
    "mig": ["nvml.migMonitor=true", "nvml.boardReadings=true", "nvml.release=true"],
    "pod monitor": ["podMonitor.enabled=true", "podMonitor.labels.release=prometheus"],
    "service monitor": [
        "serviceMonitor.enabled=true", "webConfig.secretName=web", "webConfig.scheme=https",
        "serviceMonitor.endpoint.basicAuth.username.name=web",
        "serviceMonitor.endpoint.basicAuth.username.key=user",
    ],
    "rules": ["prometheusRule.enabled=true", "dashboard.enabled=true"],
    "layouts": [
        "layoutsConfigMap=more-layouts", "legacyMetrics=true",
        "extraArgs={--device-type-vendor-once}",
    ],
    "everything else": [
        "hostNetwork=true", "runtimeClassName=nvidia", "priorityClassName=low",
        "imagePullSecrets[0].name=pull", "serviceAccount.create=false", "serviceAccount.name=mine",
        "podLabels.a=b", "podAnnotations.a=b", "image.digest=sha256:" + "0" * 64, "log.format=text",
    ],
}  # fmt: skip
INSTEAD: dict[str, list[str]] = {
    "instead": [],
    "instead without removing": ["gc.dryRun=true", "hostProc=true"],
    "instead without feedback": ["feedback.enabled=false"],
    "instead without both": ["feedback.enabled=false", "gc.enabled=false"],
}
VARIANTS = {**BESIDE, **{name: ["mode=instead", *values] for name, values in INSTEAD.items()}}

OVERLAYS = ("base", "overlays/beside", "overlays/instead")


def documents(text: str) -> list[Manifest]:
    """The manifests of a stream of YAML."""
    return [document for document in yaml.safe_load_all(text) if document]


@functools.cache
def chart(*values: str) -> list[Manifest]:
    """What helm makes of the chart with these values."""
    settings = [part for value in (IMAGE, *values) for part in ("--set", value)]
    return documents(
        run("helm", "template", "hami-cache", CHART, "--namespace", "kube-system", *settings)
    )


@functools.cache
def kustomized(folder: Path) -> list[Manifest]:
    """What kustomize makes of a folder."""
    return documents(run("kubectl", "kustomize", folder))


def variant(name: str) -> list[Manifest]:
    """The manifests of a variant of the chart."""
    return chart(*VARIANTS[name])


def daemonset(manifests: list[Manifest]) -> Manifest:
    """The one DaemonSet among them."""
    (found,) = (one for one in manifests if one["kind"] == "DaemonSet")
    return found


def everything() -> Iterator[tuple[str, Manifest]]:
    """Every manifest of every variant and overlay, with where it comes from."""
    for name in VARIANTS:
        yield from ((f"chart, {name}", manifest) for manifest in variant(name))
    for overlay in OVERLAYS:
        yield from ((overlay, manifest) for manifest in kustomized(KUSTOMIZE / overlay))


def own_daemonsets() -> Iterator[tuple[str, Manifest]]:
    """Our DaemonSet in every variant and overlay."""
    yield from ((name, one) for name, one in everything() if one["kind"] == "DaemonSet")


def container(manifest: Manifest, name: str = "hami-cache") -> Manifest:
    """A copy of a container of a DaemonSet."""
    containers = manifest["spec"]["template"]["spec"]["containers"]
    found: Manifest
    (found,) = (one for one in containers if one["name"] == name)
    return copy.deepcopy(found)
