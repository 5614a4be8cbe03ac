"""Bytes of the API server's list and watch answers, decoded under suspicion.

Pods come as plain JSON objects, decoded one at a time and reduced at once: a typed client would
keep every field of every pod. Facts about the format: "Efficient detection of changes" in
Kubernetes' reference "API concepts".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hami_cache.node.cluster_error import ClusterError, error_event
from hami_cache.node.pods import Pod

MAX_BYTES = 16 << 20
"""The largest page or event taken. etcd holds objects of 1.5 MiB: a few times that as JSON."""

EventKind = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list.

    Attributes:
        items: the pods, not decoded yet.
        version: the list's resource version.
        token: how to ask for the next page, "" on the last one.
    """

    items: list[Any]
    version: str
    token: str


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch. `version` is where a later watch goes on; a bookmark has no pod."""

    kind: EventKind
    version: str
    pod: Pod | None = None


def decode_page(body: bytes) -> Page:
    """Cut a PodList into its items.

    Raises:
        ClusterError: `malformed`.
    """
    import msgspec

    page = _decoded(body, dict[str, msgspec.Raw], "the pod list")
    nothing = msgspec.Raw(b"null")
    # Go writes an empty slice as null.
    items = _decoded(page.get("items", nothing), list[msgspec.Raw] | None, "the pod list")
    meta = _decoded(page.get("metadata", nothing), Any, "the pod list")
    return Page(items or [], _version(meta, "the pod list"), _member(meta, "continue"))


def decode_item(item: Any) -> Pod | None:
    """The pod in a page's item; None when it is no pod with a UID."""
    obj = _decoded(item, Any, "a pod of the list")
    pod = Pod.from_json(obj) if isinstance(obj, dict) else None
    return pod if pod is not None and pod.uid else None


def decode_event(line: bytes) -> Event:
    """One line of a watch.

    Raises:
        ClusterError: `malformed`, or what an ERROR event says.
    """
    event = _decoded(line, Any, "a watch event")
    obj = event.get("object") if isinstance(event, dict) else None
    if not isinstance(obj, dict):
        raise _malformed("a watch event has no object")
    kind = event.get("type")
    if kind == "ERROR":
        raise error_event(obj)
    version = _version(obj.get("metadata"), "a watch event")
    match kind:
        case "BOOKMARK":
            return Event(kind, version)
        case "ADDED" | "MODIFIED" | "DELETED":
            pod = Pod.from_json(obj)
            if not pod.uid:
                raise _malformed("the pod of a watch event has no uid")
            return Event(kind, version, pod)
    raise _malformed("a watch event is of no known type")


def decode_status(chunks: Iterable[bytes]) -> object:
    """The body of a refusal, None when it is not short and JSON (a proxy's page, say)."""
    try:
        return _decoded(whole(chunks, 64 << 10), Any, "the refusal")
    except ClusterError:
        return None


def whole(chunks: Iterable[bytes], limit: int = MAX_BYTES) -> bytes:
    """All the chunks in one piece.

    Raises:
        ClusterError: `oversized`, before more than `limit` bytes and a chunk are held.
    """
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise ClusterError("the answer is too large", "oversized")
    return bytes(body)


def lines(chunks: Iterable[bytes], limit: int = MAX_BYTES) -> Iterator[bytes]:
    """The stream's lines that are not empty.

    Raises:
        ClusterError: `oversized`; `dropped` when the stream ends inside a line.
    """
    pending = bytearray()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            pending += line
            if pending:
                yield bytes(pending)
            pending.clear()
        pending += rest
        if len(pending) > limit:
            raise ClusterError("a watch event is too large", "oversized", relist=True)
    if pending:
        raise ClusterError("the watch ended inside an event", "dropped")


def _decoded(data: Any, kind: Any, what: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"{what} cannot be read: {error}") from None


def _version(meta: object, what: str) -> str:
    version = _member(meta, "resourceVersion")
    if not version:
        raise _malformed(f"{what} has no resourceVersion")
    return version


def _member(meta: object, name: str) -> str:
    value = meta.get(name) if isinstance(meta, Mapping) else None
    return value if isinstance(value, str) else ""


def _malformed(message: str) -> ClusterError:
    return ClusterError(message, "malformed", relist=True)
