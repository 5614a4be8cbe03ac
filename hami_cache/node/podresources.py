"""The kubelet's pod-resources API: which container was given which devices.

One unary call, ``List``, over gRPC on a unix socket (k8s.io/kubelet/pkg/apis/podresources, v1;
kubelets before 1.20 only have v1alpha1, whose messages are the same as far as they are read here).
The answer is complete each time, so a caller that missed one recovers with the next.

The messages are read by hand: five fields of three small messages do not earn generated code or a
dependency on a protobuf runtime whose version would have to fit the user's other packages.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from hami_cache.errors import ConfigError, HamiCacheError

DEFAULT_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
DEFAULT_MAX_MESSAGE_BYTES = 16 << 20
"""Answers of 5 MiB are seen in the field, above gRPC's own limit of 4 MiB."""

_METHODS = ("/v1.PodResourcesLister/List", "/v1alpha1.PodResourcesLister/List")
_RECONNECT_MS = 1000
"""A kubelet that restarts is found again at the next poll, not after gRPC's back-off of minutes."""


class PodResourcesError(HamiCacheError):
    """The kubelet did not answer, or not with a list of pod resources."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of one resource that a container holds: one entry of the kubelet's list."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


class PodResources:
    """A connection to the kubelet's pod-resources socket.

    Opening it waits for the kubelet, so that a missing socket or mount shows itself at the start
    and not as a node that is idle for ever.

    Args:
        socket: the unix socket.
        max_message_bytes: the largest answer that is accepted.
        dial_timeout: seconds to wait for the kubelet at the start.
        call_timeout: seconds that one list may take.

    Raises:
        ConfigError: grpcio is not installed.
        PodResourcesError: nobody answers on the socket.
    """

    def __init__(
        self,
        socket: Path = DEFAULT_SOCKET,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        dial_timeout: float = 10.0,
        call_timeout: float = 10.0,
    ) -> None:
        try:
            import grpc
        except ImportError:
            raise ConfigError(
                "grpcio is missing", hint="pip install 'hami-cache[kubelet]'"
            ) from None
        self._grpc = grpc
        self._socket = socket
        self._call_timeout = call_timeout
        self._channel = grpc.insecure_channel(
            f"unix:{quote(os.path.abspath(socket))}",
            options=[
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS),
                ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS),
            ],
        )
        self._lists = [self._channel.unary_unary(method) for method in _METHODS]
        try:
            grpc.channel_ready_future(self._channel).result(timeout=dial_timeout)
        except grpc.FutureTimeoutError:
            self.close()
            raise PodResourcesError(
                f"no kubelet answers within {dial_timeout:g} s",
                path=socket,
                hint="mount the host's /var/lib/kubelet/pod-resources, or give its place",
            ) from None

    def list(self) -> list[Allocation]:
        """Everything that the node's containers hold now, in the kubelet's order.

        Raises:
            PodResourcesError: no answer in time, an error, an answer past the limit, or one that is
                no list.
        """
        try:
            return parse_list(self._call())
        except PodResourcesError as error:
            error.path = str(self._socket)
            raise

    def _call(self) -> bytes:
        code = self._grpc.StatusCode
        for method in self._lists:
            try:
                answer: bytes = method(b"", timeout=self._call_timeout)
                return answer
            except self._grpc.RpcError as error:
                if error.code() is code.UNIMPLEMENTED:
                    continue
                details = error.details() or ""
                too_large = "message larger than max" in details
                raise PodResourcesError(
                    f"the kubelet's list failed: {error.code().name}: {details}",
                    hint="allow larger answers" if too_large else None,
                ) from None
        raise PodResourcesError("the kubelet offers neither v1 nor v1alpha1 of pod resources")

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def parse_list(message: bytes) -> list[Allocation]:
    """Read a ``ListPodResourcesResponse``; unknown fields are passed over.

    Raises:
        PodResourcesError: the bytes are no such message.
    """
    result = []
    for pod in _fields(memoryview(message))[1]:
        of_pod = _fields(pod)
        name, namespace = _text(of_pod[1]), _text(of_pod[2])
        for container in of_pod[3]:
            of_container = _fields(container)
            container_name = _text(of_container[1])
            for devices in of_container[2]:
                of_devices = _fields(devices)
                ids = tuple(_text([device]) for device in of_devices[2])
                resource = _text(of_devices[1])
                result.append(Allocation(namespace, name, container_name, resource, ids))
    return result


def _fields(message: memoryview) -> defaultdict[int, list[memoryview]]:
    """The fields that carry bytes (strings and messages), by their numbers, in order.

    Numbers are passed over: none is needed, and a field of another type than expected counts as
    unknown.
    """
    fields: defaultdict[int, list[memoryview]] = defaultdict(list)
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire_type = tag >> 3, tag & 7
        if not 1 <= number < 1 << 29:
            raise _broken("a field number is out of range")
        if wire_type == 2:
            length, place = _varint(message, place)
            end = place + length
            fields[number].append(message[place:end])
        elif wire_type == 0:
            end = _varint(message, place)[1]
        elif wire_type in (1, 5):
            end = place + (8 if wire_type == 1 else 4)
        else:
            raise _broken(f"a field has wire type {wire_type}")
        if end > len(message):
            raise _broken("a field is longer than its message")
        place = end
    return fields


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number of at most ten bytes, and the place behind it."""
    value = 0
    for at in range(place, min(place + 10, len(message))):
        byte = message[at]
        value |= (byte & 0x7F) << 7 * (at - place)
        if byte < 0x80:
            return value, at + 1
    raise _broken("a number does not end")


def _text(parts: Sequence[memoryview]) -> str:
    """A string: of several the last counts, none is ""."""
    try:
        return str(parts[-1], "utf-8") if parts else ""
    except UnicodeDecodeError:
        raise _broken("a text is not UTF-8") from None


def _broken(fault: str) -> PodResourcesError:
    return PodResourcesError(f"the kubelet's answer is no list of pod resources: {fault}")
