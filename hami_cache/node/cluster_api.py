"""Asking the API server for the pods of one node: list and watch.

Written over the HTTP client that lightkube configures, not over lightkube's own watch: that one
cannot ask for bookmarks and waits for ever on a half-open connection. Everything is bounded:
seconds, bytes, pages.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hami_cache.node.cluster_decode import (
    Event,
    Page,
    decode_event,
    decode_item,
    decode_page,
    decode_status,
    lines,
    whole,
)
from hami_cache.node.cluster_error import ClusterError, in_our_words, refusal
from hami_cache.node.pods import Pod

if TYPE_CHECKING:
    import httpx2

PAGE_PODS = 25
"""Pods asked for at a time: a page of ordinary pods (20 KB each) is half a megabyte."""

MAX_PAGES = 400


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for the server.

    Attributes:
        connect: for the connection, and again for its TLS handshake.
        answer: for a page of a list, from the request to its last byte.
        quiet: for the next byte of a watch. A server that was asked for bookmarks sends one about
            every minute, so a connection that is quiet for longer is taken to be half open.
    """

    connect: float = 5.0
    answer: float = 20.0
    quiet: float = 150.0


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list.

    Attributes:
        pods: by UID; only those that say themselves that they are on the node asked for.
        version: where a watch goes on from.
        unreadable: items that were no pod with a UID. Each of them may have been a live one.
    """

    pods: Mapping[str, Pod]
    version: str
    unreadable: int


class PodApi:
    """One client's conversation with the API server; used by one thread, interrupted by any.

    Args:
        client: knows the server's address, TLS and credentials.
        node: the only node whose pods are asked for (`spec.nodeName`).
        patience: how long to wait for what.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: httpx2.Client,
        node: str,
        patience: Patience,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._node = node
        self._patience = patience
        self._clock = clock
        self._page_pods = PAGE_PODS
        self._socket: socket.socket | None = None

    def list(self) -> Listing:
        """The node's pods as they are now: without a `resourceVersion` no stale cache may answer.

        Raises:
            ClusterError: the list could not be read to its end; then nothing of it counts.
        """
        pods: dict[str, Pod] = {}
        unreadable = 0
        version = token = ""
        for _ in range(MAX_PAGES):
            page = self._page(token)
            version = version or page.version
            for pod in map(decode_item, page.items):
                if pod is None:
                    unreadable += 1
                elif pod.node == self._node:
                    pods[pod.uid] = pod
            token = page.token
            if not token:
                return Listing(pods, version, unreadable)
        raise ClusterError(f"the pod list does not end after {MAX_PAGES} pages", "oversized")

    @contextlib.contextmanager
    def watch(self, version: str, seconds: int) -> Iterator[Iterator[Event]]:
        """A watch; entering it means that the server took it.

        Args:
            version: the last resource version known.
            seconds: after which the server is to end the watch, and with it the iteration.

        Raises:
            ClusterError: on entering or while iterating.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        quiet = self._patience.quiet
        with self._answer(query, quiet) as response:
            chunks = self._in_time(response.iter_raw(), seconds + quiet)
            yield map(decode_event, lines(chunks))

    def interrupt(self) -> None:
        """Make the request that another thread waits for fail now."""
        waiting = self._socket
        if waiting is not None:
            with contextlib.suppress(OSError):
                # SSLSocket.shutdown would take the TLS object from under the thread that reads.
                socket.socket.shutdown(waiting, socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back. Only for the thread that used it."""
        self._socket = None
        self._client.close()

    def _page(self, token: str) -> Page:
        query = {"limit": str(self._page_pods)}
        if token:
            query["continue"] = token
        seconds = self._patience.answer
        try:
            with self._answer(query, seconds) as response:
                return decode_page(whole(self._in_time(response.iter_raw(), seconds)))
        except ClusterError as error:
            if error.cause != "oversized" or self._page_pods == 1:
                raise
        # Somebody's pods are huge: one at a time they fit.
        self._page_pods = 1
        return self._page(token)

    @contextlib.contextmanager
    def _answer(self, query: Mapping[str, str], read: float) -> Iterator[httpx2.Response]:
        import httpx2

        with in_our_words():
            request = self._client.build_request(
                "GET",
                "/api/v1/pods",
                params={"fieldSelector": f"spec.nodeName={self._node}", **query},
                # Unpacking turns small answers into large ones, and a node's list is small.
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
                timeout=httpx2.Timeout(self._patience.connect, read=read),
                extensions={"trace": self._remember_socket},
            )
            with contextlib.closing(self._sent(request)) as response:
                if response.status_code != 200:
                    chunks = self._in_time(response.iter_raw(), self._patience.answer)
                    raise refusal(response.status_code, response.headers, decode_status(chunks))
                yield response

    def _sent(self, request: httpx2.Request) -> httpx2.Response:
        import httpx2

        try:
            return self._client.send(request, stream=True)
        except httpx2.HTTPError:
            raise
        except Exception as error:
            # Credentials are fetched now: from a token file, or from a login helper's JSON.
            raise ClusterError(f"no usable credentials: {error}", "config") from None

    def _remember_socket(self, event: str, info: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")

    def _in_time(self, chunks: Iterable[bytes], seconds: float) -> Iterator[bytes]:
        """The chunks while there is time: a server that trickles never runs into a read timeout."""
        deadline = self._clock() + seconds
        for chunk in chunks:
            if self._clock() > deadline:
                raise ClusterError("the API server takes too long over its answer", "timeout")
            yield chunk
