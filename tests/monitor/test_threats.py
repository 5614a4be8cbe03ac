"""One test per threat of a hostile tenant: nobody else's series suffer, and nothing is made up."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hami_cache.node.containers import Effort
from hami_cache.testing import CacheBuilder, Memory
from tests.monitor.node import Node, Scrape

USED = "hami_vgpu_memory_used_bytes"
VICTIM = 4242


def victim() -> CacheBuilder:
    return CacheBuilder("v1.2").device("GPU-shared").process(1, memory=[VICTIM])


def hostile() -> CacheBuilder:
    return CacheBuilder("v1.2").device("GPU-shared").process(1, memory=[99])


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with a well-behaved container beside whatever a test adds."""
    node = Node(tmp_path)
    node.tree.add("victim", "main", victim())
    return node


def unharmed(scrape: Scrape) -> bool:
    """The well-behaved container is exported as it is."""
    return scrape.values(USED, pod="victim") == [VICTIM]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def device(path: Path) -> None:
    if os.geteuid() != 0:
        path.mkdir()
    else:
        os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero: endless


def terabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("make", [fifo, listening_socket, device, Path.mkdir, terabyte])
def test_what_is_no_cache_is_never_opened_for_long(
    node: Node, make: Callable[[Path], None], tmp_path: Path
) -> None:
    # A socket's path must be short, so the file is made elsewhere and moved.
    place = node.tree.add("evil", "main") / "x.cache"
    short = tmp_path / "s"
    make(short)
    short.rename(place)
    scrape = node.scrape()
    assert unharmed(scrape)
    assert scrape.samples(USED, pod="evil") == []
    assert scrape.anomalies(pod="evil") == {"cache_ignored"}


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symlink", "hard link"])
def test_a_link_to_another_tenants_cache_shows_nothing_under_the_wrong_name(
    node: Node, link: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    theirs = node.tree.add("other", "main", victim())
    link(theirs, node.tree.add("evil", "main") / "x.cache")
    scrape = node.scrape()
    assert unharmed(scrape)
    assert scrape.samples(USED, pod="evil") == []
    assert "cache_ignored" in scrape.anomalies(pod="evil")


def test_a_linked_container_directory_is_not_entered(node: Node) -> None:
    elsewhere = node.tree.root / "elsewhere"
    elsewhere.mkdir()
    victim().write(elsewhere / "x.cache")
    (node.tree.containers / "uid_linked").symlink_to(elsewhere)
    scrape = node.scrape()
    assert unharmed(scrape)
    assert scrape.value("hami_cache_skipped_entries") == 1


@pytest.mark.parametrize("size", [0, 4096])
def test_a_file_cut_while_it_is_mapped_is_gone_and_comes_back(node: Node, size: int) -> None:
    path = node.tree.add("evil", "main", hostile())
    assert node.scrape().values(USED, pod="evil") == [99]
    os.truncate(path, size)
    scrape = node.scrape()
    assert unharmed(scrape)
    assert scrape.samples(USED, pod="evil") == []
    hostile().write(path)
    assert node.scrape().values(USED, pod="evil") == [99]


def test_a_replaced_file_never_shows_the_old_numbers(node: Node) -> None:
    path = node.tree.add("evil", "main", hostile())
    assert node.scrape().values(USED, pod="evil") == [99]
    fresh = path.with_suffix(".new")
    hostile().process(1, memory=[7], index=0).write(fresh)
    fresh.replace(path)
    assert node.scrape().values(USED, pod="evil") == [7]


def test_files_replaced_all_the_time_kill_nothing(node: Node) -> None:
    path = node.tree.add("evil", "main", hostile())
    contents = [hostile().build(), b"", hostile().build()[:5000]]
    stop = threading.Event()

    def replace() -> None:
        number = 0
        while not stop.is_set():
            fresh = path.with_suffix(f".{number % 2}")
            fresh.write_bytes(contents[number % 3])
            fresh.replace(path)
            number += 1

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(50):
            scrape = node.scrape()
            assert unharmed(scrape)
            assert set(scrape.values(USED, pod="evil")) <= {99.0}
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("raw", "exported"),
    [
        (b'GPU-"quoted"\\', True),
        ("GPU-ümlaut".encode(), True),
        (b"GPU-two\nlines", False),
        (b"GPU-\xff\xfe", False),
        (b"", False),
        (b"\x80" + bytes(23) + b"\x01", False),
    ],
)
def test_no_uuid_breaks_the_exposition(node: Node, raw: bytes, exported: bool) -> None:
    builder = CacheBuilder("v1.2").device("GPU-good").device("GPU-other")
    builder.process(1, memory=[5, 6])
    ref = builder.layout.field("uuids[0]")
    builder.patch(ref.offset, raw.ljust(ref.size, b"\0"))
    node.tree.add("evil", "main", builder)
    scrape = node.scrape()
    assert unharmed(scrape)
    labels = {labels["device_uuid"] for labels, _ in scrape.samples(USED, pod="evil")}
    assert "GPU-other" in labels
    assert len(labels) == 1 + exported
    assert ("uuid_unreadable" in scrape.anomalies(pod="evil")) is not exported
    if exported:
        assert raw.decode() in labels


def test_a_new_uuid_in_every_scrape_ends_after_a_few(node: Node) -> None:
    path = node.tree.add("evil", "main", hostile())
    seen = set()
    for number in range(100):
        builder = CacheBuilder("v1.2").device(f"GPU-{number}").process(1, memory=[5])
        if number % 2:
            fresh = path.with_suffix(".new")
            builder.write(fresh)
            fresh.replace(path)
        else:
            content = builder.build()
            with path.open("r+b") as file:
                file.write(content)
        scrape = node.scrape()
        assert unharmed(scrape)
        seen |= {labels["device_uuid"] for labels, _ in scrape.samples(USED, pod="evil")}
    assert len(seen) <= 8
    assert "uuid_unreadable" in node.scrape().anomalies(pod="evil")


def test_another_cards_uuid_stays_under_the_tenants_own_name(node: Node) -> None:
    node.tree.add("evil", "main", hostile())
    scrape = node.scrape()
    assert unharmed(scrape)
    assert scrape.values(USED, device_uuid="GPU-shared") == [99, VICTIM]


@pytest.mark.parametrize(
    ("path", "value", "kind"),
    [
        ("proc_num", -1, "proc_num_out_of_range"),
        ("proc_num", 2**31 - 1, "proc_num_out_of_range"),
        ("device_num", 17, "device_num_out_of_range"),
        ("device_num", 2**64 - 1, "device_num_out_of_range"),
        ("priority", -1, "priority_out_of_range"),
        ("procs[0].status", 9, "status_out_of_range"),
        ("procs[0].used[0].total", 2**64 - 5, "counter_underflow"),
        ("last_kernel_time", 2**63, "last_kernel_in_future"),
        ("procs[0].seqlock", 13, "stuck_seqlock"),
    ],
)
def test_absurd_numbers_are_anomalies_and_never_figures(
    node: Node, path: str, value: int, kind: str
) -> None:
    node.tree.add("evil", "main", hostile().set(path, value))
    scrape = node.scrape()
    assert unharmed(scrape)
    assert kind in scrape.anomalies(pod="evil")
    assert set(scrape.values(USED, pod="evil")) <= {0.0, 99.0}
    assert len(scrape.samples(USED, pod="evil")) <= 16


def test_b3_a_counter_below_zero_is_absent_and_spoils_no_other_device(node: Node) -> None:
    builder = CacheBuilder("v1.2").device("GPU-a").device("GPU-b")
    builder.process(1, memory=[Memory(data=2**64 - 1813956), 5])
    builder.process(2, memory=[1 << 30, 6])
    node.tree.add("evil", "main", builder)
    scrape = node.scrape()
    assert unharmed(scrape)
    assert scrape.samples(USED, pod="evil", device_uuid="GPU-a") == []
    assert scrape.values(USED, pod="evil", device_uuid="GPU-b") == [11]
    assert scrape.value("hami_vgpu_memory_limit_bytes", pod="evil", device_uuid="GPU-a") > 0


def test_a_seqlock_that_is_odd_for_ever_costs_the_breakdown_only(node: Node) -> None:
    node.tree.add("evil", "main", hostile().set("procs[0].seqlock", 13))
    scrape = node.scrape()
    assert scrape.values(USED, pod="evil") == [99]
    assert scrape.samples("hami_vgpu_memory_buffer_bytes", pod="evil") == []


def test_a_directory_full_of_names_is_looked_at_for_a_bounded_time(node: Node) -> None:
    directory = node.tree.add("evil", "main", hostile()).parent
    for number in range(2000):
        (directory / f"{number}.cache").touch()
    scrape = node.scrape()
    assert unharmed(scrape)
    assert "cache_ignored" in scrape.anomalies(pod="evil")


WORST: list[Callable[[Path], object]] = [
    fifo,
    Path.mkdir,
    terabyte,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.write_bytes(os.urandom(2008953)),
    lambda path: hostile().set("proc_num", 1024).set("device_num", 16).write(path),
    lambda path: path.write_bytes(hostile().build()[:1500000]),
    lambda path: CacheBuilder("v1-sem").not_initialised().write(path),
]


def crowd(node: Node, directories: int) -> None:
    """Many directories with the worst content each."""
    odd = CacheBuilder("v1.2").device()
    for slot in range(1024):
        odd.process(slot + 1, memory=[5], seqlock=13)
    content = odd.build()
    for number in range(directories):
        place = node.tree.add(f"evil-{number:03}", "main") / "x.cache"
        if number % 2:
            WORST[number // 2 % len(WORST)](place)
        else:
            place.write_bytes(content)


def test_500_directories_of_the_worst_content_starve_nobody(tmp_path: Path) -> None:
    node = Node(tmp_path, effort=Effort())
    node.tree.add("victim", "main", victim())
    crowd(node, 500)
    for _ in range(500):  # a busy machine opens few files a pass, but some in every one
        if unharmed(node.scrape()):
            break
    # The bound is in passes and in what each may do, not in seconds: opening is cut off by Effort,
    # reading by the call budget of the native pass, whatever the tenants left behind.
    for _ in range(3):
        scrape = node.scrape()
        assert unharmed(scrape)
        assert scrape.value("hami_cache_collect_errors") == 0


def test_memory_and_descriptors_stay_flat_over_many_scrapes(tmp_path: Path) -> None:
    script = """
import gc, os, sys
from pathlib import Path
from tests.monitor.node import Node
from tests.monitor.test_threats import hostile, victim
node = Node(Path(sys.argv[1]))
node.tree.add("victim", "main", victim())
paths = [node.tree.add(f"evil-{n}", "main", hostile()) for n in range(10)]
def size():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
def round(number):
    for index, path in enumerate(paths):
        builder = hostile().device(f"GPU-{number}-{index}")
        fresh = path.with_suffix(".new")
        builder.write(fresh)
        fresh.replace(path)
    for _ in range(20):
        node.scrape()
for number in range(10):
    round(number)
before, descriptors = size(), len(os.listdir("/proc/self/fd"))
maps = Path("/proc/self/maps").read_text().count(".cache")
for number in range(15):
    round(100 + number)
print(size() - before, len(os.listdir("/proc/self/fd")) - descriptors)
assert Path("/proc/self/maps").read_text().count(".cache") == maps
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    growth, descriptors = map(int, run.stdout.split())
    assert descriptors == 0
    assert growth < 4 << 20, f"{growth} bytes more after 300 scrapes"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop to another user")
def test_c13_a_cache_that_may_not_be_read_is_reported_and_others_go_on(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from tests.monitor.node import Node
from tests.monitor.test_threats import hostile, unharmed, victim
os.umask(0)
root = Path(sys.argv[1])
node = Node(root)
node.tree.add("victim", "main", victim())
node.tree.add("evil", "main", hostile()).chmod(0)
os.seteuid(65534)
scrape = node.scrape()
assert unharmed(scrape)
assert scrape.value("hami_cache_state", pod="evil", state="unreadable") == 1
assert not scrape.samples("hami_vgpu_memory_used_bytes", pod="evil")
"""
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_the_number_of_open_files_is_bounded_by_what_the_process_may_have(node: Node) -> None:
    for number in range(40):
        node.tree.add(f"pod-{number}", "main", hostile())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
    try:
        scrape = node.scrape()
        assert len(scrape.samples(USED)) >= 5
        assert scrape.samples("hami_cache_state", state="unreadable")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(node.scrape().samples(USED)) == 41
