"""The plain manifests, and the patches of HAMi's own DaemonSet."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from hami_cache.cli.monitor import monitor
from hami_cache.cli.vgpumonitor import without_go_logger
from tests.deploy import operator
from tests.deploy.needs import DEPLOY, package, run
from tests.deploy.rendered import (
    HAMI,
    KUSTOMIZE,
    Manifest,
    chart,
    container,
    daemonset,
    documents,
    kustomized,
)

REPLACE = KUSTOMIZE / "overlays" / "replace"
WITHOUT = KUSTOMIZE / "overlays" / "instead" / "hami-without-monitor.yaml"


def built(folder: Path, resource: Path, component: Path, **more: object) -> list[Manifest]:
    """What an operator's own kustomization makes of a component and a file or an overlay."""
    if resource.is_file():
        resource = Path(shutil.copy(resource, folder))
    kustomization = {
        "resources": [os.path.relpath(resource, folder)],
        "components": [os.path.relpath(component, folder)],
        **more,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return kustomized(folder)


def patched(patch: Path) -> Manifest:
    """HAMi's DaemonSet after ``kubectl patch --patch-file``."""
    text = run("kubectl", "patch", "--local", "-f", HAMI, "--patch-file", patch, "-o", "yaml")
    (found,) = documents(text)
    return found


@pytest.fixture
def replaced(tmp_path: Path) -> Manifest:
    image = {"name": "hami-cache", "newName": "registry.example.com/hami-cache", "newTag": "0.1.0"}
    return daemonset(built(tmp_path, HAMI, REPLACE, images=[image]))


def test_replace_changes_the_image_and_keeps_command_and_environment(replaced: Manifest) -> None:
    (hami,) = documents(HAMI.read_text())
    before, after = container(hami, "vgpu-monitor"), container(replaced, "vgpu-monitor")
    assert after["image"] == "registry.example.com/hami-cache:0.1.0"
    for kept in ("command", "env", "ports"):
        assert after[kept] == before[kept]
    assert container(replaced, "device-plugin") == container(hami, "device-plugin")


def test_replace_leaves_only_the_mounts_that_are_used(replaced: Manifest) -> None:
    mounts = [one["mountPath"] for one in container(replaced, "vgpu-monitor")["volumeMounts"]]
    assert mounts == ["/usr/local/vgpu/containers", "/tmp"]


def test_replace_keeps_what_the_container_toolkit_insists_on(replaced: Manifest) -> None:
    rights = container(replaced, "vgpu-monitor")["securityContext"]
    assert rights == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN", "LEASE"]},
        "readOnlyRootFilesystem": True,
    }


def test_a_replaced_monitor_gets_probes_that_are_served(replaced: Manifest) -> None:
    pod = container(replaced, "vgpu-monitor")
    assert pod["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": 9394}
    assert pod["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 9394}
    package("kubernetes_validate").validate(replaced, "1.37", strict=True)


def test_the_command_of_hami_is_understood(replaced: Manifest) -> None:
    program, *arguments = container(replaced, "vgpu-monitor")["command"]
    assert program == "vGPUmonitor"
    context = monitor.make_context(program, list(without_go_logger(arguments)))
    assert context.params["legacy"] is True


def test_kubectl_patches_as_kustomize_does(replaced: Manifest) -> None:
    by_kubectl = container(patched(REPLACE / "hami-device-plugin.yaml"), "vgpu-monitor")
    by_kustomize = container(replaced, "vgpu-monitor")
    assert by_kubectl.pop("image") == "hami-cache"
    assert by_kustomize.pop("image")
    assert by_kubectl == by_kustomize


def test_the_values_for_hamis_chart_fit_its_daemonset() -> None:
    values = yaml.safe_load((DEPLOY / "helm" / "hami-values.yaml").read_text())
    its = values["devicePlugin"]["monitor"]
    assert set(its) == {"image", "extraArgs", "resources"}
    assert set(its["image"]) == {"registry", "repository", "tag"}
    context = monitor.make_context("vGPUmonitor", list(its["extraArgs"]))
    assert context.params["host_proc"] == Path("/proc")


def test_hamis_monitor_can_be_taken_out_and_nothing_else() -> None:
    (hami,) = documents(HAMI.read_text())
    spec = patched(WITHOUT)["spec"]["template"]["spec"]
    assert [one["name"] for one in spec["containers"]] == ["device-plugin"]
    assert spec["volumes"] == hami["spec"]["template"]["spec"]["volumes"]


@pytest.mark.parametrize(
    ("component", "labels"),
    [
        ("podmonitor", {"app.kubernetes.io/name": "hami-cache"}),
        ("podmonitor-hami", {"app.kubernetes.io/component": "hami-device-plugin"}),
    ],
)
def test_pod_monitors_select_their_pods_and_keep_the_tenants_names(
    tmp_path: Path, component: str, labels: dict[str, str]
) -> None:
    target = HAMI if component.endswith("hami") else KUSTOMIZE / "overlays" / "beside"
    manifests = built(tmp_path, target, KUSTOMIZE / "components" / component)
    (monitor_,) = (one for one in manifests if one["kind"] == "PodMonitor")
    package("jsonschema").validate(monitor_, operator.SCHEMAS["PodMonitor"])
    wanted = monitor_["spec"]["selector"]["matchLabels"]
    assert labels.items() <= wanted.items()
    template = daemonset(manifests)["spec"]["template"]
    assert wanted.items() <= template["metadata"]["labels"].items()
    (endpoint,) = monitor_["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True
    ports = [
        port["name"] for one in template["spec"]["containers"] for port in one.get("ports", ())
    ]
    assert endpoint["port"] in ports


@pytest.mark.parametrize("mode", ["beside", "instead"])
def test_chart_and_plain_manifests_run_the_same_container(mode: str) -> None:
    helm = container(daemonset(chart(f"mode={mode}")))
    plain = container(daemonset(kustomized(KUSTOMIZE / "overlays" / mode)))
    for one in (helm, plain):
        one.pop("image")
        one.pop("imagePullPolicy", None)
        one["args"] = sorted(set(one["args"]) - {"--log-level=info"})
        one["env"].sort(key=lambda variable: str(variable["name"]))
    assert helm == plain
