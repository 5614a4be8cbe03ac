"""What lies in the folder in which a page's examples run."""

from __future__ import annotations

import os
import re
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from hami_cache.spec import registry
from hami_cache.testing import CacheBuilder, Memory, container_tree
from hami_cache.toolkit.render import render
from tests.allocwatch.kubelet import Kubelet, pod_list
from tests.allocwatch.test_command import write_profile
from tests.docs.examples import blocks
from tests.goldens import golden
from tests.toolkit.headers import header_of, replaced

GIB = 1 << 30
A_YEAR_AGO = time.time() - 365 * 86400
BROKEN = "v1.2--mixed-v1-seqlock-then-v1.2"
"""The golden file of the walk-through: written by two real libvgpus, one after the other."""

PLACES = {
    "/usr/local/vgpu": "vgpu",
    "/var/lib/kubelet/pod-resources/kubelet.sock": "kubelet.sock",
    "/host/proc": "/proc",
    "s3://": "bucket-",
}
"""Paths of a real node, URLs of a store, and what stands for them here."""


def small_node(folder: Path) -> None:
    """Three containers under ``vgpu`` and their pods in ``pods.json``."""
    tree = container_tree(folder / "vgpu")
    card = "GPU-8f0c2e4a-1f6b-4f5e-9d63-0d5a3c1b7e42"
    for pod, layout in (("trainer", "v1.2"), ("notebook", "v1-sem")):
        builder = CacheBuilder(layout).device(card, limit=16 * GIB, sm_limit=50)
        tree.add(pod, "main", builder.process(7, memory=[2 * GIB], sm_util=[30]), namespace="work")
    tree.add("starting", "main", namespace="work")
    (folder / "pods.json").write_text(tree.pods_json.read_text())


def everywhere(folder: Path) -> None:
    """Whatever page it is: the node, and ``a.cache`` and ``x.cache`` of it."""
    small_node(folder)
    builder = CacheBuilder("v1-sem").device(sm_limit=50).device()
    builder.process(7, memory=[Memory(context=300 << 20, data=GIB)])
    for name in ("a.cache", "x.cache"):
        builder.write(folder / name)


def garbage_collection(folder: Path) -> None:
    """A directory that nobody has touched for a year."""
    left_over = folder / "vgpu" / "containers" / "c0ffee00-0000-4000-8000-000000000000_main"
    left_over.mkdir()
    os.utime(left_over, (A_YEAR_AGO, A_YEAR_AGO))


def scan(folder: Path) -> None:
    """Last night's dump of a node, in what stands for a bucket."""
    dump = folder / "bucket-dumps" / "2026-12-01" / "node-7.tar.gz"
    dump.parent.mkdir(parents=True)
    with tarfile.open(dump, "w:gz") as archive:
        archive.add(folder / "a.cache", "a.cache")


def doctor(folder: Path) -> None:
    builder = CacheBuilder("v1.2").process(7, memory=[1000], monitorused=[GIB])
    below_zero = Memory(data=-1571457 % 2**64)
    builder.process(8, memory=[below_zero], monitorused=[GIB]).write(folder / "x.cache")


def forensics(folder: Path) -> None:
    CacheBuilder("v1-sem").process(7, memory=[1000]).write(folder / "before.cache")
    CacheBuilder("v1.2").process(7, memory=[600]).write(folder / "after.cache")
    use = Memory(context=1080537517, module=2289907223, data=1195941801)
    builder = CacheBuilder("v1.2").process(7, memory=[use])
    builder.process(8, memory=[5]).process(9, memory=[5]).process(10, memory=[use])
    builder.write(folder / "x.cache")


def add_a_layout(folder: Path) -> None:
    """The page's own layout file, and a cache by it."""
    page = Path(__file__).resolve().parents[2] / "docs" / "add-a-layout.md"
    [text] = (block.text for block in blocks(page) if block.language == "toml")
    (folder / "my-layouts").mkdir()
    (folder / "my-layouts" / "v1.3.toml").write_text(text)
    layout = registry.layouts(folder / "my-layouts")["v1.3"]
    CacheBuilder(layout).process(7, memory=[GIB]).write(folder / "x.cache")


def layout_tools(folder: Path) -> None:
    """A pull request on v1.2's header, a Go mirror with three mistakes, a project with tests."""
    header = folder / "src" / "multiprocess" / "multiprocess_memory_limit.h"
    header.parent.mkdir(parents=True)
    (folder / "layouts").mkdir()
    text = header_of(registry.layout("v1.2"))
    (folder / "vendor").mkdir()
    (folder / "vendor" / header.name).write_text(text)
    text = replaced(text, "    uint64_t device_num;", "    uint64_t flags, device_num;")
    header.write_text(text)
    mirror = render(registry.layout("v1"), "go")
    for old, new in (
        ("OwnerPid          uint64", "OwnerPid uint32"),
        ("Sem               [4]uint64", "Sem [32]byte"),
        ("DeviceNum         uint64", "num uint64"),
    ):
        mirror = replaced(mirror, old, new)
    spec = folder / "pkg" / "monitor" / "nvidia" / "v1" / "spec.go"
    spec.parent.mkdir(parents=True)
    spec.write_text(mirror)
    (folder / "my_project.py").write_text(
        "from types import SimpleNamespace\n\nimport hami_cache\n\n\n"
        "def my_reader(path):\n"
        "    with hami_cache.open_cache(path) as cache:\n"
        "        return SimpleNamespace(used=cache.snapshot().devices[0].used.total)\n"
    )


def allocwatch(folder: Path) -> Kubelet:
    """A profile with one card, and a kubelet that has given it to a container."""
    card = "GPU-8f0c2e4a-1f6b-4f5e-9d63-0d5a3c1b7e42"
    write_profile(folder, card)
    given = {"resourceName": "nvidia.com/gpu", "deviceIds": [card]}
    containers = [{"name": "main", "devices": [given]}]
    answer = pod_list([{"name": "trainer", "namespace": "work", "containers": containers}])
    return Kubelet(folder / "kubelet.sock", lambda context: answer)


def broken_node(folder: Path) -> None:
    """What was copied off a node: a mixed file, twice, and its neighbours."""
    copies = folder / "node-7"
    copies.mkdir()
    mixed = golden(BROKEN).data
    (copies / "mixed.cache").write_bytes(mixed)
    (copies / "idle.cache").write_bytes(golden("v1.2--fresh").data)
    (copies / "negative.cache").write_bytes(golden("v1.2--underflow").data)
    (copies / "cut.cache").write_bytes(golden("v1.2--busy").data[:1_500_000])
    (copies / "starting.cache").touch()
    later = bytearray(mixed)
    for name, more in (("used[0].data", GIB), ("used[0].total", GIB), ("seqlock", 2)):
        offset = registry.layout("v1.2").field(f"procs[2].{name}").offset
        value = int.from_bytes(later[offset : offset + 8], "little") + more
        later[offset : offset + 8] = value.to_bytes(8, "little")
    (folder / "mixed.later.cache").write_bytes(later)


def absent(folder: Path) -> None:
    """A counter below zero, beside the node and on it."""
    data = golden("v1.2--underflow").data
    (folder / "negative.cache").write_bytes(data)
    tree = container_tree(folder / "vgpu")
    tree.add("trainer", "main", data, namespace="work")
    tree.pods_json.replace(folder / "pods.json")


PAGES: Mapping[str, Callable[[Path], AbstractContextManager[object] | None]] = {
    "absent.md": absent,
    "allocwatch.md": allocwatch,
    "add-a-layout.md": add_a_layout,
    "broken-node.md": broken_node,
    "doctor.md": doctor,
    "forensics.md": forensics,
    "garbage-collection.md": garbage_collection,
    "layout-tools.md": layout_tools,
    "scan.md": scan,
}
"""What a page needs beyond, or instead of, `everywhere`'s files; and while it is being run."""


@contextmanager
def prepared(page: str, folder: Path) -> Iterator[None]:
    """The folder of a page, for as long as its examples run."""
    everywhere(folder)
    prepare = PAGES.get(page)
    with (prepare and prepare(folder)) or nullcontext():
        yield


SKIPPED = {
    r"make (demo|test|bench)\b": "this suite is run by them, or takes minutes",
    r"(kubectl|helm|docker) ": "needs a cluster or a registry; tests/deploy renders the manifests",
    r"hami-cache top (?!--once)": "goes on until somebody ends it; tests/cli has a terminal for it",
    r"pipx? install ": "needs the network",
    r".* --pods (api|auto)\b": "needs an API server; tests/node has one",
}
"""Commands that cannot run here, as patterns of how they begin, and why."""


def reason_to_skip(command: str) -> str | None:
    """Why a command is not run, if it is not."""
    return next((why for how, why in SKIPPED.items() if re.match(how, command)), None)
