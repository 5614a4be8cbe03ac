"""A double of the Kubernetes API server: pods over real HTTP(S), with the ways in which it fails.

It speaks the list/watch wire format: `fieldSelector`, `limit` and `continue`, `resourceVersion`,
chunked watch streams, bookmarks, and 410 Gone as a status or as an event. Answers can be scripted
one request at a time (`on_list`, `on_watch`); everything that was asked is on record (`requests`).
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TLS = Path(__file__).parent / "tls"
NODE = "node-a"
PATIENCE_S = 20.0
"""How long a test waits for what must happen; only a failing test waits that long."""


def pod_json(
    uid: str,
    *,
    node: str = NODE,
    phase: str = "Running",
    containers: tuple[str, ...] = ("main",),
    init: tuple[str, ...] = (),
    ephemeral: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    ballast: int = 0,
) -> dict[str, Any]:
    """A core/v1 Pod; `ballast` bytes of the kind that real ones carry around."""

    def named(names: tuple[str, ...]) -> list[dict[str, str]]:
        return [{"name": name, "image": "registry.example/app:1"} for name in names]

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "uid": uid,
            "name": f"pod-{uid}",
            "namespace": "default",
            "labels": labels or {},
            "annotations": annotations or {},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": "x" * ballast}}],
        },
        "spec": {
            "nodeName": node,
            "containers": named(containers),
            "initContainers": named(init),
            "ephemeralContainers": named(ephemeral),
        },
        "status": {
            "phase": phase,
            "containerStatuses": [
                {"name": name, "containerID": f"containerd://{uid}-{name}"} for name in containers
            ],
        },
    }


def status_json(code: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "message": message}


@dataclass(frozen=True)
class Request:
    path: str
    query: dict[str, str]
    token: str
    client_cert: bool

    @property
    def watch(self) -> bool:
        return self.query.get("watch") in ("1", "true")


Answer = Callable[["Handler"], None]
"""A scripted answer to one request."""


def refuse(code: int, message: str = "scripted", **headers: str) -> Answer:
    def answer(handler: Handler) -> None:
        body = json.dumps(status_json(code, message)).encode()
        handler.send_whole(code, body, {k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def say(body: bytes, code: int = 200) -> Answer:
    """A whole answer of any bytes."""
    return lambda handler: handler.send_whole(code, body, {})


def cut_off(body: bytes) -> Answer:
    """The head of an answer that promises more than it sends."""

    def answer(handler: Handler) -> None:
        handler.send_head(200, {"Content-Length": str(len(body) + 1000)})
        handler.wfile.write(body)
        handler.close_connection = True

    return answer


def hang_up(handler: Handler) -> None:
    """No answer at all."""
    handler.close_connection = True


def never_answer(handler: Handler) -> None:
    """Silence, until the client gives up or the server is closed."""
    handler.connection.settimeout(PATIENCE_S)
    with contextlib.suppress(OSError):
        handler.connection.recv(1)
    handler.close_connection = True


def when(ready: threading.Event, answer: Answer) -> Answer:
    """That answer, once the test has done what must come before it."""

    def wait_and_answer(handler: Handler) -> None:
        assert ready.wait(PATIENCE_S)
        answer(handler)

    return wait_and_answer


def trickle(handler: Handler) -> None:
    """A byte now and then, and never the end, for as long as the client listens."""
    handler.send_head(200, {"Transfer-Encoding": "chunked"})
    while not handler.api.closing.wait(0.005):
        handler.send_chunk(b" ")


class ApiServer:
    """The server; use it as a context manager.

    Args:
        tls: serve HTTPS with the certificate in `TLS`; ask for a client certificate.
        tokens: bearer tokens accepted now (change it to rotate them); None accepts everybody.
    """

    def __init__(self, *, tls: bool = False, tokens: set[str] | None = None) -> None:
        self.tokens = tokens
        self.heed_selector = True
        self.gone_as_event = False
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self.changed = threading.Condition()
        self._on_list: deque[Answer] = deque()
        self._on_watch: deque[Answer] = deque()
        self._version = 100
        self._oldest = 0
        self._pods: dict[str, dict[str, Any]] = {}
        self._history: list[tuple[int, str, dict[str, Any]]] = []
        self._snapshots: dict[int, list[dict[str, Any]]] = {}
        self._watches: list[Watch] = []
        self._http = _Server(("127.0.0.1", 0), Handler)
        self._http.api = self
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=TLS / "ca.pem")
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_cert_chain(TLS / "server.pem")
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.host, self.port = "127.0.0.1", self._http.server_port
        self.url = f"{'https' if tls else 'http'}://{self.host}:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self.end_watches()
        self._http.hang_up_all()
        self._http.server_close()
        self._thread.join()

    # What the cluster does

    def add(self, pod: dict[str, Any]) -> None:
        self._happen("MODIFIED" if pod["metadata"]["uid"] in self._pods else "ADDED", pod)

    def delete(self, uid: str) -> None:
        self._happen("DELETED", self._pods[uid])

    def pass_time(self) -> None:
        """Something happens elsewhere in the cluster."""
        with self.changed:
            self._version += 1

    def forget_the_past(self) -> None:
        """Compaction: versions up to now cannot be watched from, and no list can be continued."""
        with self.changed:
            self._version += 1
            self._oldest = self._version

    def lose_everything(self) -> None:
        """etcd restored from an old backup: versions start again below those that clients know."""
        with self.changed:
            self._version = 10
            self._oldest = 0
            self._history.clear()

    # What goes wrong

    def on_list(self, *answers: Answer) -> None:
        self._on_list.extend(answers)

    def on_watch(self, *answers: Answer) -> None:
        self._on_watch.extend(answers)

    # What open watches see

    def bookmark(self) -> None:
        self.pass_time()
        meta = {"resourceVersion": str(self._version)}
        self._tell("BOOKMARK", {"kind": "Pod", "metadata": meta})

    def send_line(self, line: bytes) -> None:
        with self.changed:
            for watch in self._watches:
                watch.put(line)

    def end_watches(self) -> None:
        """As the server does when `timeoutSeconds` are over."""
        self.send_line(Watch.END)

    def drop_watches(self, *, inside_line: bool = False) -> None:
        """The connection goes away, between two events or in the middle of one."""
        if inside_line:
            self.send_line(b'{"type":"ADDED","object":{"metadata":{"uid":"ha')
        self.send_line(Watch.DROP)

    # What a test asks

    @property
    def lists(self) -> list[Request]:
        return [request for request in self.requests if not request.watch]

    @property
    def watches(self) -> list[Request]:
        return [request for request in self.requests if request.watch]

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def wait_for(self, wanted: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(wanted, PATIENCE_S), "the client never did it"

    def kubeconfig(self, path: Path, **user: Any) -> Path:
        """Write a kubeconfig (JSON is YAML) for this server."""
        cluster: dict[str, Any] = {"server": self.url}
        if self.url.startswith("https"):
            cluster["certificate-authority"] = str(TLS / "ca.pem")
        names = {"cluster": "c", "user": "u"}
        config = {
            "current-context": "x",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": names}],
        }
        path.write_text(json.dumps(config))
        return path

    # How it is done

    def _happen(self, kind: str, pod: dict[str, Any]) -> None:
        with self.changed:
            self._version += 1
            pod["metadata"]["resourceVersion"] = str(self._version)
            uid = pod["metadata"]["uid"]
            if kind == "DELETED":
                del self._pods[uid]
            else:
                self._pods[uid] = pod
            self._history.append((self._version, kind, pod))
            self._tell(kind, pod)

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        with self.changed:
            for watch in self._watches:
                if kind == "BOOKMARK" and not watch.bookmarks:
                    continue
                if kind != "BOOKMARK" and not self._selects(watch.selector, obj):
                    continue
                watch.put(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def _selects(self, selector: str, pod: dict[str, Any]) -> bool:
        wanted = f"spec.nodeName={pod['spec'].get('nodeName', '')}"
        return not self.heed_selector or not selector or selector == wanted

    def record(self, request: Request) -> Answer | None:
        """Take a request down; returns the answer that is scripted for it."""
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
            script = self._on_watch if request.watch else self._on_list
            return script.popleft() if script else None

    def list(self, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        with self.changed:
            if token := query.get("continue"):
                version, start = map(int, token.split(":"))
                if version < self._oldest:
                    return 410, status_json(410, "The provided continue parameter is too old")
            else:
                version, start = self._version, 0
                selector = query.get("fieldSelector", "")
                chosen = [p for p in self._pods.values() if self._selects(selector, p)]
                self._snapshots[version] = chosen
            pods = self._snapshots[version]
        end = start + int(query.get("limit", len(pods) or 1))
        meta = {"resourceVersion": str(version)}
        if end < len(pods):
            meta["continue"] = f"{version}:{end}"
        items = pods[start:end] or None  # as Go writes an empty slice
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items}

    @contextlib.contextmanager
    def watch(self, query: dict[str, str]) -> Iterator[Watch | tuple[int, str]]:
        """A watch with what its client missed already in it, or why there is none."""
        given = query.get("resourceVersion", "")
        with self.changed:
            if not given.isdigit():
                refusal = (400, "invalid resource version")
            elif int(given) > self._version:
                refusal = (504, "Too large resource version")
            elif int(given) < self._oldest:
                refusal = (410, "too old resource version")
            else:
                refusal = None
                watch = Watch(query)
                for version, kind, pod in self._history:
                    if version > int(given) and self._selects(watch.selector, pod):
                        watch.put(json.dumps({"type": kind, "object": pod}).encode() + b"\n")
                self._watches.append(watch)
                self.changed.notify_all()
        if refusal is not None:
            yield refusal
            return
        try:
            yield watch
        finally:
            with self.changed:
                self._watches.remove(watch)
                self.changed.notify_all()


class Watch:
    """An open watch, as a queue of bytes to send."""

    END = b"end"
    DROP = b"drop"

    def __init__(self, query: dict[str, str]) -> None:
        self.selector = query.get("fieldSelector", "")
        self.bookmarks = query.get("allowWatchBookmarks") in ("1", "true")
        self._queue: queue.Queue[bytes] = queue.Queue()

    def put(self, line: bytes) -> None:
        self._queue.put(line)

    def get(self) -> bytes:
        return self._queue.get()


class _Server(ThreadingHTTPServer):
    api: ApiServer
    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: type[Handler]) -> None:
        super().__init__(address, handler)
        self.connections: set[socket.socket] = set()

    def hang_up_all(self) -> None:
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One connection; several requests may come over it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    @property
    def api(self) -> ApiServer:
        return self.server.api

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Tests have the record."""

    def handle_one_request(self) -> None:
        # A client that goes away is what half of the tests are about.
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        cert = isinstance(self.connection, ssl.SSLSocket) and bool(self.connection.getpeercert())
        request = Request(url.path, query, token, cert)
        scripted = self.api.record(request)
        if scripted is not None:
            scripted(self)
        elif self.api.tokens is not None and token not in self.api.tokens:
            refuse(401, "Unauthorized")(self)
        elif url.path != "/api/v1/pods":
            refuse(404, "the server could not find the requested resource")(self)
        elif request.watch:
            self._serve_watch(query)
        else:
            code, body = self.api.list(query)
            self.send_whole(code, json.dumps(body).encode(), {})

    def _serve_watch(self, query: dict[str, str]) -> None:
        with self.api.watch(query) as watch:
            if not isinstance(watch, Watch):
                self._refuse_watch(*watch)
                return
            self.send_head(200, {"Transfer-Encoding": "chunked"})
            while True:
                match watch.get():
                    case Watch.END:
                        self.wfile.write(b"0\r\n\r\n")
                        return
                    case Watch.DROP:
                        self.close_connection = True
                        return
                    case line:
                        self.send_chunk(line)

    def _refuse_watch(self, code: int, message: str) -> None:
        if code != 410 or not self.api.gone_as_event:
            refuse(code, message)(self)
            return
        event = {"type": "ERROR", "object": status_json(code, message)}
        say(json.dumps(event).encode() + b"\n")(self)

    def send_head(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_whole(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_head(code, {"Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
