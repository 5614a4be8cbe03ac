"""The kubelet's pod-resources API, against a real gRPC server on a unix socket."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_cache.node.podresources import Allocation, PodResources, PodResourcesError, parse_list
from tests.allocwatch.kubelet import Kubelet, pod_list

MIB = 1 << 20


def pod(
    name: str, *ids: str, resource: str = "nvidia.com/gpu", namespace: str = "work"
) -> dict[str, Any]:
    devices = [{"resourceName": resource, "deviceIds": list(ids)}]
    return {
        "name": name,
        "namespace": namespace,
        "containers": [{"name": "main", "devices": devices}],
    }


ONE = pod_list([pod("p-0", "GPU-a", "GPU-b::3")])
ONE_ALLOCATION = Allocation("work", "p-0", "main", "nvidia.com/gpu", ("GPU-a", "GPU-b::3"))


def many(size: int) -> bytes:
    """A list of at least that many bytes."""
    uuid = "GPU-6c9b66f5-ab18-ed84-9adb-cbbde8270654"
    pods = [pod(f"pod-{i:04d}", *(f"{uuid}::{j}" for j in range(1000))) for i in range(22)]
    one_mib = pod_list(pods)
    return one_mib * (size // len(one_mib) + 1)


def test_lists_what_containers_hold(tmp_path: Path) -> None:
    with Kubelet(tmp_path / "s", lambda _: ONE), PodResources(tmp_path / "s") as kubelet:
        assert kubelet.list() == [ONE_ALLOCATION]
        assert kubelet.list() == [ONE_ALLOCATION]


def test_a_socket_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    folder = tmp_path / "50% off?#x"
    folder.mkdir()
    plain = tmp_path / "plain"
    with Kubelet(plain, lambda _: ONE):
        (folder / "s").symlink_to(plain)
        with PodResources(folder / "s") as kubelet:
            assert kubelet.list() == [ONE_ALLOCATION]


def test_an_old_kubelet_offers_v1alpha1_only(tmp_path: Path) -> None:
    with (
        Kubelet(tmp_path / "s", lambda _: ONE, versions=["v1alpha1"]),
        PodResources(tmp_path / "s") as kubelet,
    ):
        assert kubelet.list() == [ONE_ALLOCATION]


def test_v1_is_preferred(tmp_path: Path) -> None:
    def answer(context: grpc.ServicerContext) -> bytes:
        calls.append(threading.current_thread().name)
        return ONE

    calls: list[str] = []
    with (
        Kubelet(tmp_path / "s", answer, versions=["v1", "v1alpha1"]),
        PodResources(tmp_path / "s") as kubelet,
    ):
        kubelet.list()
    assert len(calls) == 1


def test_a_kubelet_without_the_api_is_an_error(tmp_path: Path) -> None:
    with (
        Kubelet(tmp_path / "s", lambda _: ONE, versions=["v2"]),
        PodResources(tmp_path / "s") as kubelet,
        pytest.raises(PodResourcesError, match=r"^/.*/s: .* neither v1 nor v1alpha1"),
    ):
        kubelet.list()


def test_a_missing_socket_fails_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(PodResourcesError, match=r"no kubelet answers within 0\.2 s; mount"):
        PodResources(tmp_path / "nothing", dial_timeout=0.2)


def test_a_listener_that_never_speaks_fails_at_the_start(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        with pytest.raises(PodResourcesError, match="no kubelet answers"):
            PodResources(tmp_path / "s", dial_timeout=0.2)


def test_a_kubelet_that_never_answers_is_given_up(tmp_path: Path) -> None:
    def answer(context: grpc.ServicerContext) -> bytes:
        gone = threading.Event()
        context.add_callback(gone.set)
        gone.wait()
        return b""

    with (
        Kubelet(tmp_path / "s", answer),
        PodResources(tmp_path / "s", call_timeout=0.2) as kubelet,
        pytest.raises(PodResourcesError, match="DEADLINE_EXCEEDED"),
    ):
        kubelet.list()


def test_a_kubelet_that_refuses_is_an_error(tmp_path: Path) -> None:
    def answer(context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        return b""

    with (
        Kubelet(tmp_path / "s", answer),
        PodResources(tmp_path / "s") as kubelet,
        pytest.raises(PodResourcesError, match=r"RESOURCE_EXHAUSTED: rejected by rate limit$"),
    ):
        kubelet.list()


def test_a_kubelet_that_dies_between_two_lists(tmp_path: Path) -> None:
    with Kubelet(tmp_path / "s", lambda _: ONE):
        kubelet = PodResources(tmp_path / "s")
        assert kubelet.list() == [ONE_ALLOCATION]
    with kubelet, pytest.raises(PodResourcesError, match="UNAVAILABLE"):
        kubelet.list()


def test_five_mib_are_read(tmp_path: Path) -> None:
    message = many(5 * MIB)
    assert len(message) > 5 * MIB
    with Kubelet(tmp_path / "s", lambda _: message), PodResources(tmp_path / "s") as kubelet:
        assert kubelet.list() == parse_list(message)


def test_twenty_mib_are_refused_unless_allowed(tmp_path: Path) -> None:
    message = many(20 * MIB)
    with Kubelet(tmp_path / "s", lambda _: message):
        with (
            PodResources(tmp_path / "s") as kubelet,
            pytest.raises(
                PodResourcesError, match=r"RESOURCE_EXHAUSTED.*16777216.*; allow larger answers$"
            ),
        ):
            kubelet.list()
        with PodResources(tmp_path / "s", max_message_bytes=32 * MIB) as kubelet:
            assert len(kubelet.list()) == len(message) // len(many(0)) * 22


def test_an_answer_that_is_no_list_names_the_socket(tmp_path: Path) -> None:
    with (
        Kubelet(tmp_path / "s", lambda _: b"\x0a\xff"),
        PodResources(tmp_path / "s") as kubelet,
        pytest.raises(PodResourcesError, match=r"^/.*/s: the kubelet's answer is no list"),
    ):
        kubelet.list()


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (b"\x0a", "does not end"),
        (b"\x0a\x05ab", "longer than its message"),
        (b"\x0a\x03\x0a\x05a", "longer than its message"),
        (b"\x02\x00", "field number"),
        (b"\x0b", "wire type 3"),
        (b"\x0f", "wire type 7"),
        (b"\x09\x00", "longer than its message"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "does not end"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "longer than its message"),
        (b"\x0a\x03\x0a\x01\xff", "not UTF-8"),
    ],
)
def test_broken_messages(message: bytes, fault: str) -> None:
    with pytest.raises(PodResourcesError, match=fault):
        parse_list(message)


def test_unknown_fields_and_unexpected_types_are_passed_over() -> None:
    inner = pod_list([pod("p-0", "GPU-a")])
    extra = b"\x08\x07" + b"\x11" + bytes(8) + b"\x1d" + bytes(4) + b"\xa2\x06\x02xx"
    assert parse_list(extra + inner + extra) == parse_list(inner)


def test_of_a_name_given_twice_the_last_counts() -> None:
    twice = pod_list([pod("p-0", "GPU-a")]).replace(b"\x0a\x03p-0", b"\x0a\x03p-1\x0a\x03p-0")
    content = twice[2:]
    message = b"\x0a" + bytes([len(content)]) + content
    assert [entry.pod for entry in parse_list(message)] == ["p-0"]


texts = st.text(st.characters(codec="utf-8"), max_size=20)
pods = st.lists(
    st.fixed_dictionaries(
        {
            "name": texts,
            "namespace": texts,
            "containers": st.lists(
                st.fixed_dictionaries(
                    {
                        "name": texts,
                        "devices": st.lists(
                            st.fixed_dictionaries(
                                {"resourceName": texts, "deviceIds": st.lists(texts, max_size=3)}
                            ),
                            max_size=3,
                        ),
                    }
                ),
                max_size=3,
            ),
        }
    ),
    max_size=3,
)


@given(pods)
def test_every_list_is_read_back(listed: list[Any]) -> None:
    assert parse_list(pod_list(listed)) == [
        Allocation(
            entry["namespace"],
            entry["name"],
            container["name"],
            devices["resourceName"],
            tuple(devices["deviceIds"]),
        )
        for entry in listed
        for container in entry["containers"]
        for devices in container["devices"]
    ]


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_parser(message: bytes) -> None:
    with contextlib.suppress(PodResourcesError):
        parse_list(message)


@given(st.data())
def test_no_damage_to_a_list_crashes_the_parser(data: st.DataObject) -> None:
    damaged = bytearray(ONE)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PodResourcesError):
        parse_list(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
