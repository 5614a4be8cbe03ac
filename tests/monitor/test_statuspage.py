"""The status page: everything a person looks for, and nothing that a tenant could smuggle in."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hami_cache.absent import Absent
from hami_cache.model import Figure
from hami_cache.monitor.statuspage import (
    HEADERS,
    MAX_CONTAINERS,
    Condition,
    ContainerRow,
    DeviceRow,
    StatusView,
    render,
)

GIB = 1 << 30
VOID = {"meta", "rect"}


class Page(HTMLParser):
    """Tags, attributes and text; a tag that is not closed where it should be is an error."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        assert self._open == []
        self.text = " ".join(" ".join(self.lines).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.lines.append(data)


def device(**changes: Figure | str) -> DeviceRow:
    values: dict[str, object] = {
        "index": 0,
        "uuid": "GPU-4fa3c1d2",
        "used": 3 * GIB,
        "limit": 8 * GIB,
        "sm": 62,
        "sm_limit": 50,
    }
    return DeviceRow(**(values | changes))  # type: ignore[arg-type]


def row(*devices: DeviceRow, **changes: object) -> ContainerRow:
    values: dict[str, object] = {
        "namespace": "team-a",
        "pod": "trainer-0",
        "container": "main",
        "state": "ready",
        "layout": "v1.2",
        "confidence": 1.0,
        "devices": devices,
        "last_kernel": 12,
    }
    return ContainerRow(**(values | changes))  # type: ignore[arg-type]


def view(*rows: ContainerRow, **changes: object) -> StatusView:
    values: dict[str, object] = {
        "node": "gpu-node-17",
        "version": "0.1.0",
        "uptime": 187265.4,
        "root": "/usr/local/vgpu/containers",
        "conditions": {
            "pods": Condition("ok", "API server"),
            "NVML": Condition("bad", "driver not loaded"),
            "gc": Condition("off", "--no-gc"),
        },
        "containers": rows,
    }
    return StatusView(**(values | changes))  # type: ignore[arg-type]


def text_of(*rows: ContainerRow, **changes: object) -> str:
    return Page(render(view(*rows, **changes))).text


def test_the_head_says_which_node_and_how_its_parts_do() -> None:
    text = text_of(hidden={"pod_ended": 2})
    assert "gpu-node-17 hami-cache monitor 0.1.0, up 2 d 4 h, reading /usr/local/vgpu" in text
    assert "pods ok API server" in text
    assert "NVML bad driver not loaded" in text
    assert "gc off --no-gc" in text
    assert "0 exported, 0 to look at, 2 not exported (pod_ended)." in text


def test_a_container_has_its_names_state_layout_and_figures() -> None:
    text = text_of(row(device(), device(index=1, used=GIB // 2, sm=0, sm_limit=100)))
    assert (
        "team-a/trainer-0 main ready v1.2 0 3.0 GiB of 8.0 GiB 37 % 62 % of 50 % 12 s ago "
        "1 512.0 MiB of 8.0 GiB 6 % 0 %"
    ) in text


def test_a_doubtful_layout_says_how_sure_we_are() -> None:
    assert "v1.1 93% sure" in text_of(row(device(), layout="v1.1", confidence=0.93))


def bar_of(one: DeviceRow) -> list[str]:
    return re.findall(r'rect width="([^"]+)"', render(view(row(one))).decode())


@pytest.mark.parametrize(
    ("used", "share"),
    [(0, "0%"), (4 * GIB, "50%"), (8 * GIB, "100%"), (80 * GIB, "100%"), (2**64 - 1, "100%")],
)
def test_memory_is_a_bar_that_ends_at_the_limit(used: int, share: str) -> None:
    assert bar_of(device(used=used)) == ["100%", share]
    assert ("svg class" in render(view(row(device(used=used)))).decode()) == (used > 8 * GIB)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (device(used=Absent("counter_underflow")), "counter_underflow of 8.0 GiB"),
        (device(limit=Absent("torn")), "3.0 GiB of torn"),
        (device(limit=0), "3.0 GiB no limit"),
        (device(sm=Absent("not_in_layout")), "not_in_layout of 50 %"),
        (device(sm=Absent("torn"), sm_limit=Absent("torn")), "37 % torn 12 s"),
    ],
)
def test_what_is_absent_is_said_with_its_reason_and_never_zero(
    one: DeviceRow, expected: str
) -> None:
    assert expected in text_of(row(one))


def test_a_figure_that_is_absent_has_no_bar() -> None:
    assert bar_of(device(used=Absent("torn"))) == []
    assert bar_of(device(limit=0)) == []


def test_a_container_without_cards_still_has_a_row() -> None:
    text = text_of(row(state="empty", layout="", last_kernel=Absent("never")))
    assert "team-a/trainer-0 main empty never" in text
    assert "1 exported, 0 to look at" in text


def test_what_needs_a_look_comes_first_and_is_counted() -> None:
    text = text_of(
        row(device(), pod="a"),
        row(device(), pod="z", anomalies={"over_limit": "by 5 bytes", "dead_process": "1 slot"}),
        row(pod="y", state="unknown_layout"),
    )
    assert "3 exported, 2 to look at" in text
    assert text.index("team-a/y") < text.index("team-a/z") < text.index("team-a/a")
    assert "dead_process 1 slot; over_limit by 5 bytes" in text


def test_other_pages_are_linked() -> None:
    page = Page(render(view(links={"/slices": "slices"})))
    assert ("href", "/slices") in page.attributes
    assert ("href", "/metrics") in page.attributes


def test_every_cell_of_the_table_has_its_place() -> None:
    """Each body's rows fill the eight columns, counting what spans several rows."""
    rows = (
        row(),
        row(device()),
        row(device(), device(index=1), anomalies={"a": "b"}),
        row(anomalies={"a": "b"}),
    )
    for body in re.findall(r"<tbody>(.*?)</tbody>", render(view(*rows)).decode()):
        width = 0
        spanning = 4
        for number, line in enumerate(re.findall(r"<tr>(.*?)</tr>", body)):
            cells = re.findall(r"<t[hd]([^>]*)>", line)
            width = sum(int((re.findall(r'colspan="(\d)"', c) or [1])[0]) for c in cells)
            assert width + (spanning if number else 0) == 8
        spans = {int(n) for n in re.findall(r'rowspan="(\d+)"', body)}
        assert spans == {body.count("<tr>")}


nasty = st.text(max_size=30) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onmouseover='alert(1)",
        "</style><b>",
        "\x1b[31m\r\n\0",
        "\u202egnp.exe",
        "\ud800",
        "&lt;b&gt;",
        "x" * 100_000,
    ]
)
figures = st.integers(0, 2**64 - 1) | st.builds(Absent, nasty.filter(bool), nasty)
devices = st.builds(DeviceRow, st.integers(0, 15), nasty, figures, figures, figures, figures)
containers = st.builds(
    ContainerRow,
    nasty,
    nasty,
    nasty,
    nasty,
    nasty,
    st.floats(0, 1),
    st.lists(devices, max_size=2),
    figures,
    st.dictionaries(nasty, nasty, max_size=2),
)


@given(st.lists(containers, max_size=3), nasty, nasty)
@example([row(device(uuid='"><script>'))], "</title><script>", "javascript:")
def test_no_text_becomes_markup(rows: list[ContainerRow], name: str, detail: str) -> None:
    page = render(
        view(
            *rows,
            node=name,
            root=name,
            version=detail,
            conditions={"pods": Condition("bad", detail)},
            hidden={detail: 1},
        )
    )
    found = Page(page)
    assert set(found.tags) <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "code", "dl", "dt"),
        *("div", "dd", "b", "table", "thead", "tbody", "tr", "th", "td", "small", "svg", "rect"),
        *("span", "a"),
    }
    assert {name for name, _ in found.attributes} <= {
        *("lang", "charset", "name", "content", "class", "scope", "rowspan", "colspan", "title"),
        *("width", "height", "aria-hidden", "href"),
    }
    assert {value for name, value in found.attributes if name == "href"} == {"/metrics"}
    assert page.decode().rstrip("\n").replace("\n", "").isprintable()
    assert len(page) < 60_000


def test_the_number_of_rows_is_bounded_and_the_rest_is_named() -> None:
    rows = [row(device(), pod=f"p{n}") for n in range(MAX_CONTAINERS + 7)]
    page = render(view(*rows)).decode()
    assert page.count("<tbody>") == MAX_CONTAINERS
    assert "7 more are not shown" in page


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "up 0 s,"),
        (59.9, "up 59 s,"),
        (60, "up 1 min 0 s,"),
        (3661, "up 1 h 1 min,"),
        (86400, "up 1 d 0 h,"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert text in text_of(uptime=seconds)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (80 << 30, "80.0 GiB"),
        (2**64 - 1, "16777216.0 TiB"),
    ],
)
def test_bytes_are_written_for_people_and_exactly(size: int, text: str) -> None:
    page = render(view(row(device(used=size)))).decode()
    assert f">{text} of 8.0 GiB<" in page
    assert f'title="{size} of {8 * GIB} bytes"' in page


def test_the_policy_that_comes_with_the_page_lets_its_style_in_and_nothing_else() -> None:
    policy = HEADERS["Content-Security-Policy"]
    style = re.search(r"<style>(.*?)</style>", render(view()).decode(), re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"style-src 'sha256-{digest}';" in policy
    assert "style=" not in render(view(row(device()))).decode()
    assert "unsafe" not in policy
    for scheme in ("light", "dark"):
        assert scheme in style[1]
