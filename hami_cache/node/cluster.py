"""The pods of this node, from the API server: listed once, then watched by a thread of their own.

A scrape never waits for the API: `ClusterPods.view` hands out what is known, and says how far it
can be trusted.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hami_cache.errors import ConfigError
from hami_cache.node.cluster_api import Patience, PodApi
from hami_cache.node.cluster_connect import SERVICE_ACCOUNT, connect, require_cluster
from hami_cache.node.cluster_error import CAUSES, Cause, ClusterError
from hami_cache.node.cluster_state import Knowledge
from hami_cache.node.pods import PodView

_log = logging.getLogger(__name__)

CLOSE_S = 0.5
"""How long `ClusterPods.close` waits for its thread."""

RESUMES = 5
"""Answers of 5xx in a row before the list is read anew: a server whose past was lost (etcd restored
from a backup) refuses the version it is given with one of them, for ever."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When to ask again, in seconds.

    Attributes:
        watch: how long the server is to keep a watch at least. It is told up to twice as long, by
            lot, so that the nodes of a cluster do not ask in step.
        first: the pause after a first failure, at most; it doubles with each further one.
        longest: the longest pause.
        steady: a watch that was open this long ends the row of failures.
        patience: how long to wait for answers.
    """

    watch: float = 240.0
    first: float = 1.0
    longest: float = 60.0
    steady: float = 10.0
    patience: Patience = field(default_factory=Patience)

    def pause(self, failures: int, retry_after: float, roll: float) -> float:
        """The pause after so many failures in a row: half of it fixed, half of it by lot.

        Args:
            failures: at least 1.
            retry_after: what the server asked for; heeded up to `longest`.
            roll: the lot, 0 to 1.
        """
        grown = min(self.longest, self.first * 2.0 ** min(failures - 1, 30))
        return max(grown * (0.5 + roll / 2), min(retry_after, self.longest))


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """How the source is doing.

    Attributes:
        up: a watch is open and was heard of late.
        pods: how many are known.
        last_heard: Unix time of the server's last word, None before the first.
        lists: complete lists read.
        watches: watches that the server took; every one but the first is a restart.
        errors: failures by cause; every cause is there.
        last_error: the last failure in one line, "" before the first.
    """

    up: bool
    pods: int
    last_heard: float | None
    lists: int
    watches: int
    errors: Mapping[Cause, int]
    last_error: str


class ClusterPods:
    """The API server as a `PodSource`, for one node.

    Args:
        node: its name (`spec.nodeName`). Lists and watches are never wider than that.
        guessed: the name was not given but made up (a host name): such a view is never `fresh`.
        kubeconfig: how to reach the cluster; None takes the pod's service account.
        service_account: its directory.
        pace: how often and how long.
        clock: monotonic seconds.
        wall: Unix seconds.
        roll: lots between 0 and 1.
        rest: spends the pause it is given, in seconds; by default until `close` at the latest.

    Raises:
        ConfigError: there is no node name.
    """

    def __init__(
        self,
        node: str,
        *,
        guessed: bool = False,
        kubeconfig: Path | None = None,
        service_account: Path = SERVICE_ACCOUNT,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        roll: Callable[[], float] = random.random,
        rest: Callable[[float], object] | None = None,
    ) -> None:
        if not node:
            raise ConfigError("the node has no name", field="NODE_NAME", hint="set it")
        self._kubeconfig = kubeconfig
        self._service_account = service_account
        self._pace = pace or Pace()
        self._clock = clock
        self._wall = wall
        self._roll = roll
        self._knowledge = Knowledge(node, guessed)
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._rest = rest or self._stop.wait
        self._thread = threading.Thread(target=self._run, name="cluster-pods", daemon=True)
        self._api: PodApi | None = None
        self._failures = 0
        self._refusals = 0
        self._lists = 0
        self._watches = 0
        self._errors: dict[Cause, int] = dict.fromkeys(CAUSES, 0)
        self._last_error = ""
        self._last_heard: float | None = None
        self._warned: set[Cause] = set()

    def start(self) -> ClusterPods:
        """Begin to list and watch, in the background.

        Raises:
            ConfigError: there is no cluster to talk to, or no library to do it with.
        """
        require_cluster(self._kubeconfig)
        self._thread.start()
        return self

    def view(self) -> PodView:
        """What is known now; never waits."""
        return self._knowledge.view(self._clock(), self._pace.patience.quiet)

    def health(self) -> ClusterHealth:
        """How the source is doing; never waits."""
        knowledge = self._knowledge
        return ClusterHealth(
            up=knowledge.up(self._clock(), self._pace.patience.quiet),
            pods=len(knowledge.pods),
            last_heard=self._last_heard,
            lists=self._lists,
            watches=self._watches,
            errors=dict(self._errors),
            last_error=self._last_error,
        )

    def wait_for(self, wanted: Callable[[PodView], bool], timeout: float) -> bool:
        """Wait until a word of the server makes the view as wanted: for commands that run once.

        Args:
            wanted: the condition, such as ``lambda view: view.known``.
            timeout: seconds.

        Returns:
            Whether it came true.
        """
        with self._news:
            return self._news.wait_for(lambda: wanted(self.view()), timeout)

    def close(self) -> None:
        """Stop. Ends within a second, whatever the server does."""
        self._stop.set()
        deadline = time.monotonic() + CLOSE_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            api = self._api
            if api is not None:
                api.interrupt()
            self._thread.join(0.05)

    def _run(self) -> None:
        while not self._stop.is_set():
            fault = self._follow()
            if not self._stop.is_set():
                self._rest(self._conclude(fault))
        self._disconnect()
        self._publish(self._knowledge.lost(relist=False))

    def _follow(self) -> ClusterError | None:
        """List if need be, then watch until it ends; returns what went wrong, if anything did."""
        try:
            api = self._connected()
            if not self._knowledge.version:
                asked = self._clock()
                listing = api.list()
                self._lists += 1
                self._learn(self._knowledge.listed(listing, asked, self._clock()))
            seconds = int(self._pace.watch * (1 + self._roll()))
            with api.watch(self._knowledge.version, seconds) as events:
                self._refusals = 0
                self._watches += 1
                self._learn(self._knowledge.watching(self._clock()))
                for event in events:
                    self._learn(self._knowledge.told(event, self._clock()))
        except ClusterError as error:
            return error
        except Exception as error:
            # The thread outlives what nobody has thought of: without it the pods would stand still.
            return ClusterError(f"{type(error).__name__}: {error}", "unexpected", relist=True)
        return None

    def _conclude(self, fault: ClusterError | None) -> float:
        """Draw the lessons from an attempt that is over; returns the seconds to pause."""
        now = self._clock()
        opened = self._knowledge.opened
        steady = opened is not None and now - opened >= self._pace.steady
        if steady:
            self._failures = 0
            self._warned.clear()
        if fault is None:
            self._publish(self._knowledge.ended(now))
            if steady:
                return 0.0
        relist = self._blamed(fault) if fault else False
        self._failures += 1
        self._publish(self._knowledge.lost(relist=relist))
        return self._pace.pause(self._failures, fault.retry_after if fault else 0.0, self._roll())

    def _blamed(self, fault: ClusterError) -> bool:
        """Account for a failure; returns whether it takes a new list to get over it."""
        self._complain(fault)
        # Tokens, certificates and addresses change: the next client reads them anew.
        self._disconnect()
        if fault.cause == "server":
            self._refusals += 1
        return fault.relist or self._refusals > RESUMES

    def _complain(self, fault: ClusterError) -> None:
        self._errors[fault.cause] += 1
        self._last_error = str(fault)
        if fault.cause not in self._warned:
            self._warned.add(fault.cause)
            _log.warning("pods from the API server: %s", fault, extra={"cause": fault.cause})

    def _connected(self) -> PodApi:
        if self._api is None:
            client = connect(self._kubeconfig, self._service_account)
            self._api = PodApi(client, self._knowledge.node, self._pace.patience, self._clock)
        return self._api

    def _disconnect(self) -> None:
        api, self._api = self._api, None
        if api is not None:
            with contextlib.suppress(OSError):
                api.close()

    def _learn(self, knowledge: Knowledge) -> None:
        """The server said something."""
        self._last_heard = self._wall()
        self._publish(knowledge)

    def _publish(self, knowledge: Knowledge) -> None:
        with self._news:
            self._knowledge = knowledge
            self._news.notify_all()
