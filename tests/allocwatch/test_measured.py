"""What the caches below a hook path measured, under the kubelet's names: real caches and files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from hami_cache import open_cache
from hami_cache.absent import Absent
from hami_cache.allocwatch.claims import Holder
from hami_cache.allocwatch.measured import measured_memory
from hami_cache.allocwatch.reconcile import Measured
from hami_cache.errors import HamiCacheError
from hami_cache.node.hami import HAMI_ANNOTATION
from hami_cache.node.pods import NoPods, Pod, PodLogPods, PodView

GOLDEN = Path(__file__).parent.parent / "data" / "goldens" / "v1.2--busy.cache.gz"
MAIN = Holder("work", "p", "main")


class Pods(NoPods):
    """A source that knows the given pods."""

    def __init__(self, *pods: Pod) -> None:
        self._view = PodView(pods={pod.uid: pod for pod in pods}, known=True)

    def view(self) -> PodView:
        return self._view


def pod(uid: str = "uid-1", *, phase: str = "Running", granted: str = "") -> Pod:
    annotations = {HAMI_ANNOTATION: granted} if granted else {}
    return Pod(uid, "p", "work", phase=phase, annotations=annotations)


def add(hook_path: Path, directory: str, *, content: bytes | None = None) -> Path:
    folder = hook_path / "containers" / directory
    folder.mkdir(parents=True)
    if content is not None:
        (folder / "a.cache").write_bytes(content)
    return folder / "a.cache"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return add(tmp_path, "uid-1_main", content=gzip.decompress(GOLDEN.read_bytes()))


def totals(cache: Path) -> dict[str, int]:
    with open_cache(cache) as opened:
        devices = opened.snapshot().devices
    result = {str(device.uuid): device.used.total for device in devices}
    assert all(isinstance(figure, int) and figure > 0 for figure in result.values())
    return {card: int(figure) for card, figure in result.items() if isinstance(figure, int)}


def test_a_cache_is_its_containers_memory(tmp_path: Path, cache: Path) -> None:
    measure = measured_memory(tmp_path, Pods(pod()))
    assert measure() == {MAIN: Measured(totals(cache))}
    assert measure() == {MAIN: Measured(totals(cache))}


def test_the_cards_that_hami_granted_are_told(tmp_path: Path, cache: Path) -> None:
    granted = "GPU-a,NVIDIA,1024,30:GPU-b,NVIDIA,1024,30:;GPU-c,NVIDIA,1024,30:;"
    measured = measured_memory(tmp_path, Pods(pod(granted=granted)))()[MAIN]
    assert measured == Measured(totals(cache), frozenset({"GPU-a", "GPU-b", "GPU-c"}))


def test_an_annotation_that_is_none_grants_nothing(tmp_path: Path, cache: Path) -> None:
    measure = measured_memory(tmp_path, Pods(pod(granted="GPU-a,NVIDIA")))
    assert measure() == {MAIN: Measured(totals(cache))}


def test_without_a_cache_there_is_no_measurement(tmp_path: Path) -> None:
    add(tmp_path, "uid-1_main")
    assert measured_memory(tmp_path, Pods(pod()))() == {}


@pytest.mark.parametrize("pods", [Pods(), Pods(pod(phase="Failed")), Pods(pod("uid-2"))])
def test_directories_of_no_running_pod_are_left_out(
    tmp_path: Path, cache: Path, pods: Pods
) -> None:
    assert measured_memory(tmp_path, pods)() == {}


def test_a_cache_that_cannot_be_read_is_absent(tmp_path: Path) -> None:
    add(tmp_path, "uid-1_main", content=b"x" * 4096)
    assert measured_memory(tmp_path, Pods(pod()))() == {MAIN: Absent("unknown_layout")}


def test_a_card_without_a_readable_name_makes_the_container_absent(
    tmp_path: Path, cache: Path
) -> None:
    content = bytearray(cache.read_bytes())
    first = content.index(b"GPU-")
    content[first] = 0xFF
    cache.write_bytes(content)
    assert measured_memory(tmp_path, Pods(pod()))() == {MAIN: Absent("uuid_unreadable")}


def test_two_directories_of_one_name_are_absent(tmp_path: Path, cache: Path) -> None:
    add(tmp_path, "uid-0_main", content=cache.read_bytes())
    measure = measured_memory(tmp_path, Pods(pod(), pod("uid-0")))
    assert measure() == {MAIN: Absent("source_disagreement")}


def test_before_the_first_pod_list_nothing_is_measured(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(HamiCacheError, match="no pod list yet"):
        measured_memory(tmp_path, PodLogPods(tmp_path / "nothing"))()
