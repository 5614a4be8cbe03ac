"""The watcher from a real kubelet socket to a real override file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hami_cache.absent import Absent
from hami_cache.allocwatch.claims import Holder
from hami_cache.allocwatch.overrides import parse, publish
from hami_cache.allocwatch.reconcile import (
    Device,
    FractionPolicy,
    Measured,
    MeasuredPolicy,
    Memory,
    Reading,
)
from hami_cache.allocwatch.watch import Watcher
from hami_cache.errors import HamiCacheError
from hami_cache.node.podresources import Allocation, PodResources, PodResourcesError
from hami_cache.node.pods import Pod, PodView
from tests.allocwatch.kubelet import Kubelet, pod_list

CARDS = [Device(0, "GPU-a", 1000, 0), Device(1, "GPU-b", 1000, 0)]
WAIT = 30.0


def held(*ids: str, pod: str = "p") -> list[Allocation]:
    return [Allocation("work", pod, "main", "nvidia.com/gpu", ids)]


def published(file: Path) -> dict[str, object]:
    return {
        index: device and device["memory"]
        for index, device in parse(file.read_bytes()).devices.items()
    }


def memory(used: int) -> dict[str, int]:
    return {"used_bytes": used, "free_bytes": 1000 - used}


class Pods:
    """A source of pods that a test sets."""

    def __init__(self) -> None:
        self.now = PodView()

    def view(self) -> PodView:
        return self.now

    def close(self) -> None:
        pass


def test_a_card_goes_from_idle_to_shared_and_back(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    lists = [[], held("GPU-a::3"), held("GPU-a::3", "GPU-a::5"), []]
    watcher = Watcher(lambda: lists.pop(0), CARDS, FractionPolicy(0.25), file)
    for used in (0, 250, 500, 0):
        assert watcher.poll()[0] == Reading(0, Memory(used, 1000 - used))
        assert published(file) == {"0": memory(used), "1": memory(0)}


def test_a_failed_list_publishes_nothing(tmp_path: Path) -> None:
    def failing() -> list[Allocation]:
        raise PodResourcesError("the kubelet is away")

    watcher = Watcher(failing, CARDS, FractionPolicy(), tmp_path / "overrides.yaml")
    with pytest.raises(PodResourcesError):
        watcher.poll()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_measurement_publishes_nothing(tmp_path: Path) -> None:
    def failing() -> dict[Holder, Absent]:
        raise HamiCacheError("no pod list yet")

    policy = MeasuredPolicy(failing)
    watcher = Watcher(lambda: held("GPU-a"), CARDS, policy, tmp_path / "overrides.yaml")
    with pytest.raises(HamiCacheError):
        watcher.poll()
    assert list(tmp_path.iterdir()) == []


def test_an_absent_measurement_keeps_the_last_reading(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "overrides.yaml"
    figures: dict[str, int | Absent] = {"GPU-a": 7}
    policy = MeasuredPolicy(lambda: {Holder("work", "p", "main"): Measured(figures)})
    watcher = Watcher(lambda: held("GPU-a"), CARDS, policy, file)
    watcher.poll()
    figures["GPU-a"] = Absent("torn")
    watcher.poll()
    watcher.poll()
    assert published(file)["0"] == memory(7)
    assert [record.message for record in caplog.records] == [
        "device 0 keeps its last reading: torn"
    ]


def test_a_pod_that_has_ended_holds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "overrides.yaml"
    pods = Pods()
    watcher = Watcher(lambda: held("GPU-a"), CARDS, FractionPolicy(), file, pods=pods)
    watcher.poll()
    assert published(file)["0"] == memory(500)
    pod = Pod("uid", "p", "work", phase="Succeeded")
    pods.now = PodView(pods={"uid": pod}, known=True, fresh=True)
    watcher.poll()
    assert published(file)["0"] == memory(0)


def test_claims_on_unknown_cards_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    allocations = held("GPU-zzz::1", "nvidia0/vgpu1")
    watcher = Watcher(lambda: allocations, CARDS, FractionPolicy(), tmp_path / "overrides.yaml")
    watcher.poll()
    watcher.poll()
    allocations = []
    watcher.poll()
    allocations = held("GPU-zzz")
    watcher.poll()
    assert [record.message for record in caplog.records] == [
        "2 claimed cards are not in the profile, such as 'GPU-zzz'",
        "1 claimed cards are not in the profile, such as 'GPU-zzz'",
    ]


@contextmanager
def running(watcher: Watcher) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=watcher.run, args=(0.01, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT)
    assert not thread.is_alive()


class Observed:
    """A list that tells when it has worked and when it has failed."""

    def __init__(self, listing: Callable[[], list[Allocation]]) -> None:
        self._listing = listing
        self.worked = threading.Semaphore(0)
        self.failed = threading.Semaphore(0)

    def __call__(self) -> list[Allocation]:
        try:
            result = self._listing()
        except HamiCacheError:
            self.failed.release()
            raise
        self.worked.release()
        return result


def test_it_lives_through_a_restart_of_the_kubelet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(*ids: str) -> bytes:
        devices = [{"resourceName": "nvidia.com/gpu", "deviceIds": list(ids)}]
        containers = [{"name": "main", "devices": devices}]
        return pod_list([{"name": "p", "namespace": "work", "containers": containers}])

    file, socket = tmp_path / "overrides.yaml", tmp_path / "s"
    with ExitStack() as first:
        first.enter_context(Kubelet(socket, lambda _: answer("GPU-a")))
        kubelet = PodResources(socket)
        listing = Observed(kubelet.list)
        with kubelet, running(Watcher(listing, CARDS, FractionPolicy(), file)):
            # The second list begins when the first has been published.
            assert listing.worked.acquire(timeout=WAIT) and listing.worked.acquire(timeout=WAIT)
            assert published(file)["0"] == memory(500)

            first.close()
            assert listing.failed.acquire(timeout=WAIT)
            while listing.worked.acquire(blocking=False):
                pass
            assert published(file)["0"] == memory(500)

            with Kubelet(socket, lambda _: answer("GPU-a", "GPU-a")):
                assert listing.worked.acquire(timeout=WAIT) and listing.worked.acquire(timeout=WAIT)
                assert published(file)["0"] == memory(1000)
    messages = {record.message for record in caplog.records if record.levelno == logging.WARNING}
    assert all(message.endswith("(keeping the previous readings)") for message in messages)


def test_a_broken_override_file_is_told_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "overrides.yaml"
    file.write_text("devices: [")
    listing = Observed(lambda: held("GPU-a"))
    with running(Watcher(listing, CARDS, FractionPolicy(), file)):
        assert listing.worked.acquire(timeout=WAIT) and listing.worked.acquire(timeout=WAIT)
        assert file.read_text() == "devices: ["
        # Somebody repairs it; the watcher goes on.
        file.unlink()
        publish(file, [])
        while "0" not in published(file):
            assert listing.worked.acquire(timeout=WAIT)
    assert "overrides.yaml: line" in caplog.text
