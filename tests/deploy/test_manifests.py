"""What an operator applies: valid for Kubernetes, and no more rights than the monitor needs."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from click.testing import CliRunner

from hami_cache.cli.monitor import monitor
from tests.deploy import operator
from tests.deploy.needs import package
from tests.deploy.rendered import (
    HAMI,
    INSTEAD,
    VARIANTS,
    Manifest,
    container,
    daemonset,
    documents,
    everything,
    own_daemonsets,
    variant,
)

VERSIONS = ("1.25", "1.37")
"""The oldest Kubernetes that the chart asks for, and the newest with schemas."""

CORE = {"", "apps", "rbac.authorization.k8s.io"}


def group(manifest: Manifest) -> str:
    head, slash, _ = manifest["apiVersion"].partition("/")
    return head if slash else ""


def distinct() -> dict[str, tuple[str, Manifest]]:
    """Every manifest once, by its JSON."""
    return {json.dumps(one, sort_keys=True): (where, one) for where, one in everything()}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_what_kubernetes_expects(version: str) -> None:
    schemas = package("kubernetes_validate")
    checked = set()
    for where, manifest in distinct().values():
        if group(manifest) in CORE:
            try:
                schemas.validate(manifest, version, strict=True)
            except schemas.ValidationError as error:
                pytest.fail(f"{where}: {manifest['kind']}: {list(error.path)}: {error.message}")
            checked.add(manifest["kind"])
    assert checked == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet", "Service", "ConfigMap",
    }  # fmt: skip


def test_the_schemas_find_a_misspelt_field() -> None:
    schemas = package("kubernetes_validate")
    broken = copy.deepcopy(daemonset(variant("beside")))
    broken["spec"]["template"]["spec"]["containers"][0]["securityContex"] = {}
    with pytest.raises(schemas.ValidationError):
        schemas.validate(broken, VERSIONS[-1], strict=True)


def test_every_resource_of_the_operator_has_only_known_fields() -> None:
    jsonschema = package("jsonschema")
    checked = set()
    for where, manifest in distinct().values():
        if group(manifest) == "monitoring.coreos.com":
            try:
                jsonschema.validate(manifest, operator.SCHEMAS[manifest["kind"]])
            except jsonschema.ValidationError as error:
                pytest.fail(f"{where}: {manifest['kind']}: {list(error.path)}: {error.message}")
            checked.add(manifest["kind"])
    assert checked == set(operator.SCHEMAS)


def test_nothing_else_is_rendered() -> None:
    assert {group(one) for _, one in everything()} <= CORE | {"monitoring.coreos.com"}


def test_the_monitor_may_list_and_watch_pods_and_nothing_else() -> None:
    roles = [one for _, one in everything() if one["kind"] in ("Role", "ClusterRole")]
    assert roles
    for role in roles:
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
        ]


def test_the_role_is_bound_to_the_daemonsets_account_only() -> None:
    for where, own in own_daemonsets():
        account = own["spec"]["template"]["spec"]["serviceAccountName"]
        bindings = [b for w, b in everything() if w == where and b["kind"] == "ClusterRoleBinding"]
        if account == "mine":
            assert bindings == []
            continue
        (binding,) = bindings
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}
        ]


def test_no_container_gets_more_than_it_needs() -> None:
    for where, own in own_daemonsets():
        pod, rights = own["spec"]["template"]["spec"], container(own)["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False, where
        assert rights["readOnlyRootFilesystem"] is True, where
        assert rights["capabilities"]["drop"] == ["ALL"], where
        removes = not {"--read-only", "--no-gc", "--gc-dry-run"} & set(container(own)["args"])
        expected = [*(["LEASE"] if removes else []), *(["SYS_ADMIN"] if "mig" in where else [])]
        assert rights["capabilities"].get("add", []) == expected, where
        assert "privileged" not in rights
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod.get("hostPID", False) is ("host proc" in where)
        assert pod.get("hostNetwork", False) is ("everything else" in where)


def test_root_is_only_who_removes_roots_directories() -> None:
    for where, own in own_daemonsets():
        user = own["spec"]["template"]["spec"]["securityContext"]
        arguments = container(own)["args"]
        if {"--read-only", "--no-gc", "--gc-dry-run"} & set(arguments):
            assert (user["runAsNonRoot"], user["runAsUser"]) == (True, 65532), where
        else:
            assert user["runAsUser"] == 0, where


def mounts(own: Manifest) -> dict[str, tuple[str, str, bool]]:
    """Mount path -> (host path, its type, read-only)."""
    pod = own["spec"]["template"]["spec"]
    host = {one["name"]: one["hostPath"] for one in pod["volumes"] if "hostPath" in one}
    return {
        one["mountPath"]: (host[one["name"]]["path"], host[one["name"]]["type"], one["readOnly"])
        for one in container(own)["volumeMounts"]
        if one["name"] in host
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_the_hosts_files_are_read_only_unless_something_is_written(name: str) -> None:
    writes = name in ("instead", "instead without removing", "instead without feedback")
    kind = "DirectoryOrCreate" if name in INSTEAD else "Directory"
    expected = {"/hook/containers": ("/usr/local/vgpu/containers", kind, not writes)}
    if name != "no nvml":
        expected["/tmp/hami"] = ("/tmp/hami", "DirectoryOrCreate", True)
    if "hostProc=true" in VARIANTS[name]:
        expected["/host/proc"] = ("/proc", "Directory", True)
    assert mounts(daemonset(variant(name))) == expected


def test_every_volume_is_mounted_and_every_mount_has_a_volume() -> None:
    for where, own in own_daemonsets():
        volumes = [one["name"] for one in own["spec"]["template"]["spec"]["volumes"]]
        mounted = [one["name"] for one in container(own)["volumeMounts"]]
        assert sorted(volumes) == sorted(mounted), where


def test_every_option_is_one_of_the_monitors() -> None:
    shown = CliRunner().invoke(monitor, ["--help"]).output
    for where, own in own_daemonsets():
        command, *arguments = container(own)["args"]
        assert command == "monitor"
        for argument in arguments:
            assert argument.partition("=")[0] in shown.replace(",", " ").split(), where
        context = monitor.make_context("monitor", list(arguments))
        assert context.params["pods_spec"] == "api"


def test_every_mount_that_the_monitor_is_told_of_is_there() -> None:
    for where, own in own_daemonsets():
        pod = container(own)
        paths = [one["mountPath"] for one in pod["volumeMounts"]]
        environment = {one["name"]: one.get("value", "") for one in pod["env"]}
        told = [environment["HOOK_PATH"] + "/containers", environment.get("HAMI_CACHE_LAYOUTS")]
        for option in pod["args"]:
            name, _, value = option.partition("=")
            if name == "--host-proc":
                told.append(value)
            elif name == "--web-config":
                told.append(value.rpartition("/")[0])
        assert {path for path in told if path} <= set(paths), where


def test_the_probes_ask_the_port_that_is_listened_on() -> None:
    for where, own in own_daemonsets():
        pod = container(own)
        (port,) = pod["ports"]
        assert f"--metrics-bind-address=:{port['containerPort']}" in pod["args"], where
        for name, path in (
            ("startupProbe", "/healthz"),
            ("livenessProbe", "/healthz"),
            ("readinessProbe", "/readyz"),
        ):
            probe = pod[name]
            if "web users" in where or "service monitor" in where:
                assert probe["tcpSocket"] == {"port": "metrics"}, where
                continue
            assert probe["httpGet"]["path"] == path
            assert probe["httpGet"]["port"] == port["name"]
            assert probe["httpGet"].get("scheme") == ("HTTPS" if "web tls" in where else None)


def test_beside_is_on_another_port_than_the_monitor_of_hami() -> None:
    (hami,) = documents(HAMI.read_text())
    taken = container(hami, "vgpu-monitor")["ports"][0]["containerPort"]
    for where, own in own_daemonsets():
        port = container(own)["ports"][0]["containerPort"]
        assert (port == taken) is ("instead" in where or where == "base"), where


def test_memory_is_limited_and_processor_time_is_not() -> None:
    for where, own in own_daemonsets():
        limits: dict[str, Any] = container(own)["resources"]["limits"]
        assert set(limits) == {"memory"}, where


def test_scrapers_keep_the_tenants_names() -> None:
    seen = 0
    for where, one in everything():
        endpoints = one.get("spec", {}).get(
            "podMetricsEndpoints", one.get("spec", {}).get("endpoints")
        )
        for endpoint in endpoints or ():
            assert endpoint["honorLabels"] is True, where
            assert endpoint["port"] == "metrics"
            assert {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"} in (
                endpoint["relabelings"]
            )
            assert endpoint.get("scheme") == ("https" if "service monitor" in where else None)
            seen += 1
    assert seen == 2


def test_monitors_select_the_pods_that_there_are() -> None:
    for where, one in everything():
        if one["kind"] in ("PodMonitor", "ServiceMonitor", "Service"):
            (own,) = (d for w, d in own_daemonsets() if w == where)
            selector = one["spec"]["selector"]
            wanted = selector.get("matchLabels", selector)
            assert wanted.items() <= own["spec"]["template"]["metadata"]["labels"].items(), where
