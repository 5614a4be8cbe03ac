"""A kubelet's pod-resources socket: a real gRPC server whose answers a test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import grpc


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


class Kubelet:
    """A kubelet on a unix socket of its own.

    Args:
        socket: where to listen.
        answer: gives the bytes of each answer; may block until the context is no longer active.
        versions: the API versions that are offered.
    """

    def __init__(
        self,
        socket: Path,
        answer: Callable[[grpc.ServicerContext], bytes],
        versions: Sequence[str] = ("v1",),
    ) -> None:
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=4),
            options=[("grpc.max_send_message_length", -1)],
        )
        handler = grpc.unary_unary_rpc_method_handler(lambda request, context: answer(context))
        self._server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(
                    f"{version}.PodResourcesLister", {"List": handler}
                )
                for version in versions
            )
        )
        self._server.add_insecure_port(f"unix:{socket}")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()
