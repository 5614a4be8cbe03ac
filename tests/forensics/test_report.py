"""The report: everything about a file on one page, drawn to scale, and no tenant gets a word in."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hami_cache.absent import Absent
from hami_cache.forensics.anomalies import Circumstances
from hami_cache.forensics.extras import needed
from hami_cache.forensics.report import page
from hami_cache.forensics.report_html import LONGEST, text
from hami_cache.forensics.report_layout import ROW_BYTES, SCALE, WIDTH, picture
from hami_cache.forensics.report_slots import NOTHING, UNKNOWN, colour, heat_map
from hami_cache.forensics.report_subject import Reading, Subject, Unopened, examine
from hami_cache.spec import registry
from hami_cache.spec.layout import Layout
from hami_cache.testing import CacheBuilder, Memory
from tests.forensics.browser import dom, screenshot
from tests.forensics.helpers import AFTERWARDS
from tests.goldens import Golden, params

LAYOUTS = tuple(registry.layouts().values())
ONE_OF_EACH = ("busy", "allfields", "underflow", "partial", "midwrite", "mixed-v0-legacy-then-v0")
EVIL = '"><script>document.title="owned"</script><img src=x onerror=alert(1)>'
VOID = {"meta", "td", "th", "li", "br"}
"""Tags that need no end."""


def subject(path: Path) -> Subject | Unopened:
    return examine(path, Circumstances(AFTERWARDS), engine="numpy")


def rendered(*paths: Path) -> str:
    return page([subject(path) for path in paths], AFTERWARDS, "1.2.3")


class Outline(HTMLParser):
    """Checks that tags match, and collects what a page says and would load."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(document)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("one", params(lambda g: g.scenario in ONE_OF_EACH))
def test_every_kind_of_file_has_its_page(one: Golden, tmp_path: Path) -> None:
    outline = Outline(rendered(one.write(tmp_path)))
    assert all(link.startswith("#file-") for link in outline.links)
    said = " ".join(outline.words)
    assert "Anomalies" in said and "Evidence" in said
    assert ("Recovered slot by slot" in said) == bool(one.parties)
    assert ("Devices" in said) == bool(one.plain or one.parties)


def test_what_the_page_says(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").device("GPU-1", 8 << 30, 50)
    builder.process(71, 4711, memory=[Memory(context=1 << 30, data=9 << 30)], sm_util=[33])
    found = Outline(rendered(builder.write(tmp_path / "x.cache"), tmp_path / "nothing"))
    said = " ".join(" ".join(found.words).split())
    for expected in (
        "2 cache files", "v1.2 , confidence 100%", "over_limit devices[0].used.total",
        "Look for slots of dead processes first", "GPU-1 10.00 GiB 8.00 GiB",
        "33 % 50 %", "71 4711 1", "the whole file, 2008953 bytes, to scale",
        "one of 1024 process slots, 1960 bytes", "proc_num 1", "slot_balance",
        "cannot open: No such file or directory", "Made by hami-cache 1.2.3 at 2027-01-15",
    ):  # fmt: skip
        assert expected in said, expected


def test_no_tenant_gets_a_word_in(tmp_path: Path) -> None:
    path = CacheBuilder("v0").device(EVIL).write(tmp_path / f"{EVIL.replace('/', '')}.cache")
    document = rendered(path)
    outline = Outline(document)
    assert not {"script", "img"} & set(outline.tags)
    assert "&lt;script&gt;" in document


def test_text_is_escaped_made_printable_and_cut() -> None:
    assert text("<a href='x'>&") == "&lt;a href=&#x27;x&#x27;&gt;&amp;"
    assert text("\n\x1b\udc80") == r"\n\x1b\udc80"
    assert text("x" * 1000) == "x" * LONGEST + "..."
    assert text(Absent("torn")) == "Absent(&#x27;torn&#x27;)"


def test_lists_are_bounded(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2")
    for pid in range(1, 1025):
        builder.process(pid, 0, memory=[1])
    document = rendered(builder.write(tmp_path / "x.cache"))
    assert len(document) < 1_000_000
    assert "and 824 more" in document  # slots
    assert "and 1014 more" in document  # of one kind of anomaly
    assert document.count("hostpid_unknown") == 11


# ---- the pictures ----


def blocks(svg: str) -> dict[str, list[tuple[float, ...]]]:
    """The blocks of a picture by what they say: x, y, width, height."""
    found: dict[str, list[tuple[float, ...]]] = {}
    numbers = " ".join(f'{name}="([\\d.]+)"' for name in ("x", "y", "width", "height"))
    pattern = f"<rect {numbers}[^>]*><title>([^<]*)"
    for x, y, width, height, tip in re.findall(pattern, svg):
        found.setdefault(tip, []).append((float(x), float(y), float(width), float(height)))
    return found


def reading(builder: CacheBuilder, folder: Path) -> Reading:
    found = subject(builder.write(folder / "x.cache"))
    assert isinstance(found, Subject) and found.reading is not None
    return found.reading


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_byte_is_drawn_to_scale(layout: Layout, tmp_path: Path) -> None:
    read = reading(CacheBuilder(layout), tmp_path)
    region, slots = read.layout.region, read.layout.region.get("procs")
    assert slots is not None
    drawn = blocks(picture(read.layout, read.snapshot, read.layout.sizeof))
    pixels = sum(width for its in drawn.values() for _, _, width, _ in its)
    magnified = region.sizeof - slots.size + read.layout.struct_of(slots).sizeof
    assert pixels == pytest.approx(WIDTH + magnified * SCALE, abs=4)
    for field in region.fields:
        if field is not slots and not field.array:
            (tip,) = [t for t in drawn if t.startswith(f"{field.logical}: ")]
            assert f"offset {field.offset}, {field.size} bytes" in tip
            assert sum(b[2] for b in drawn[tip]) == pytest.approx(field.size * SCALE, abs=0.1)
            base = 0 if field.offset < slots.offset else slots.end
            x = (field.offset - base) % ROW_BYTES * SCALE
            assert drawn[tip][0][0] == pytest.approx(x, abs=0.1)


def test_a_slot_in_use_lies_where_it_lies(tmp_path: Path) -> None:
    read = reading(CacheBuilder("v1.2").process(7, index=512), tmp_path)
    size = read.layout.sizeof * 2
    drawn = blocks(picture(read.layout, read.snapshot, size))
    offset = read.layout.field("procs[512]").offset
    (slot,) = drawn[f"procs[512] at offset {offset}: pid 7"]
    assert slot[0] == pytest.approx(offset / size * WIDTH, abs=0.1)
    (beyond,) = drawn[f"{size // 2} bytes beyond"]
    assert beyond[0] == pytest.approx(WIDTH / 2, abs=0.1)


def test_a_heat_map_says_what_each_slot_is(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").process(7, 70, memory=[1 << 30]).process(8, status=0, index=65)
    builder.process(9, memory=[Memory(total=(1 << 64) - 1)], index=66)
    read = reading(builder, tmp_path)
    drawn = blocks(heat_map(read.layout, read.snapshot, {66}))
    assert drawn["procs[0]: pid 7, host pid 70, status 1, counted, stable, 1.00 GiB"] == [
        (1.5, 1.5, 13, 13)
    ]
    exited = "procs[65]: pid 8, host pid 100008, status 0, not counted, stable, 0 B"
    assert drawn[exited] == [(17.5, 17.5, 13, 13)]
    assert any("absent (counter_underflow)" in tip for tip in drawn)


def test_colours_go_with_the_memory() -> None:
    shades = [colour(1 << power) for power in range(20, 41)]
    assert len(set(shades)) == 21
    assert colour(1) == colour(1 << 20) and colour(1 << 62) == colour(1 << 40)
    assert colour(0) == NOTHING and colour(Absent("counter_underflow")) == UNKNOWN


# ---- in a real browser ----


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """A web server that notes what it is asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}", asked
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_browser_runs_and_loads_nothing(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    url, asked = server
    evil = f"<script>document.title='owned'</script><img src={url}/a>"
    path = CacheBuilder("v1.2").device(evil[:95]).process(7, memory=[1]).write(tmp_path / "x.cache")
    document = rendered(path)
    # Even if something slipped through, the page's policy would stop it.
    slipped = f"<script>document.title='owned'</script><img src={url}/b><style>h1{{}}</style>"
    target = tmp_path / "page.html"
    target.write_text(document.replace("</body>", f"{slipped}</body>"))
    understood = dom(target)
    assert "<title>1 cache file: hami-cache</title>" in understood
    assert f"{url}/b" in understood
    assert asked == []
    assert len(re.findall("<h3>", understood)) == 6


def test_what_a_person_sees(tmp_path: Path) -> None:
    builder = CacheBuilder("v1.2").device(limit=1 << 50)
    for pid in range(1, 65):
        builder.process(pid, memory=[1 << 40], sm_util=[1])
    target = tmp_path / "page.html"
    target.write_text(rendered(builder.write(tmp_path / "x.cache")))
    image = needed("matplotlib.image", "plot").imread(screenshot(target, 1200, 1600))
    seen = (image[:, :, :3] * 255).round()
    dark = tuple(bytes.fromhex(colour(1 << 40)[1:]))
    cells = (seen == dark).all(axis=2)
    top = cells.any(axis=1).argmax()
    assert cells[top : top + 13].sum() > 64 * 100  # the map's first row: 64 cells
    assert (seen == (26, 127, 55)).all(axis=2).sum() > 500  # the badge, and the slots to scale
