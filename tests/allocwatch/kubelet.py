"""A kubelet's pod-resources socket: a real gRPC server whose answers a test decides."""

from __future__ import annotations

from typing import Any


def pod_list(pods: list[Any]) -> bytes:
    """A ``ListPodResourcesResponse`` of pods given as in the vectors."""
    return b"".join(_field(1, _pod(pod)) for pod in pods)


def _pod(pod: Any) -> bytes:
    containers = b"".join(_field(3, _container(entry)) for entry in pod.get("containers") or [])
    return _field(1, pod["name"]) + _field(2, pod["namespace"]) + containers


def _container(container: Any) -> bytes:
    devices = b"".join(_field(2, _devices(entry)) for entry in container.get("devices") or [])
    return _field(1, container["name"]) + devices


def _devices(entry: Any) -> bytes:
    ids = b"".join(_field(2, device) for device in entry.get("deviceIds") or [])
    return _field(1, entry["resourceName"]) + ids


def _field(number: int, value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])
