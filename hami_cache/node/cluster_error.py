"""What can go wrong between this node and the API server, in one small vocabulary."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from hami_cache.errors import HamiCacheError

Cause = Literal[
    "config",
    "connect",
    "tls",
    "timeout",
    "dropped",
    "unauthorized",
    "forbidden",
    "throttled",
    "server",
    "gone",
    "refused",
    "malformed",
    "oversized",
    "unexpected",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""Every cause there is: a closed set, fit to be a metric's label."""

_CAUSES_BY_STATUS: Mapping[int, Cause] = {
    401: "unauthorized",
    403: "forbidden",
    410: "gone",
    429: "throttled",
}
_HINTS: Mapping[Cause, str] = {
    "unauthorized": "check the token or the client certificate",
    "forbidden": "allow the service account to list and watch pods",
}
_MAX_MESSAGE = 300


class ClusterError(HamiCacheError):
    """The API server could not be asked, refused, or answered something unusable.

    Args:
        message: what went wrong.
        cause: which of `CAUSES` it was.
        relist: no watch can bring what is known up to date any more; only a new list can.
        retry_after: seconds for which the server wants to be left alone.
        hint: what the reader can do about it.
    """

    def __init__(
        self,
        message: str,
        cause: Cause,
        *,
        relist: bool = False,
        retry_after: float = 0.0,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint or _HINTS.get(cause))
        self.cause = cause
        self.relist = relist
        self.retry_after = retry_after


def refusal(code: int, headers: Mapping[str, str], status: object) -> ClusterError:
    """The error that an HTTP answer other than 200 stands for.

    Args:
        code: the HTTP status.
        headers: of the answer; a `Retry-After` in seconds is heeded, a date is not.
        status: the decoded body, a Kubernetes Status if the answer comes from an API server.
    """
    after = headers.get("Retry-After", "")
    return ClusterError(
        f"the API server answers {code}{_message(status)}",
        _cause(code),
        # A version that it calls invalid is as lost as one that it calls gone.
        relist=code in (400, 404, 410),
        retry_after=float(after) if after.isascii() and after.isdigit() and len(after) < 7 else 0.0,
    )


def error_event(status: Mapping[str, Any]) -> ClusterError:
    """The error that an ERROR event of a watch carries (a Kubernetes Status)."""
    code = status.get("code")
    number = code if isinstance(code, int) else 500
    return ClusterError(
        f"the watch reports {number}{_message(status)}", _cause(number), relist=True
    )


def _cause(code: int) -> Cause:
    return _CAUSES_BY_STATUS.get(code, "server" if code >= 500 else "refused")


def _message(status: object) -> str:
    message = status.get("message") if isinstance(status, Mapping) else None
    return f": {message[:_MAX_MESSAGE]}" if isinstance(message, str) and message else ""


@contextlib.contextmanager
def in_our_words() -> Iterator[None]:
    """Turn the HTTP client's exceptions into a `ClusterError`."""
    import httpx2

    try:
        yield
    except httpx2.TimeoutException:
        raise ClusterError("the API server does not answer in time", "timeout") from None
    except httpx2.ConnectError as error:
        cause: Cause = "tls" if _is_about_tls(error) else "connect"
        raise ClusterError(f"cannot connect to the API server: {error}", cause) from None
    except httpx2.UnsupportedProtocol as error:
        raise ClusterError(f"the API server's address is no URL: {error}", "config") from None
    except httpx2.LocalProtocolError:
        # Its text quotes the header at fault, and the header at fault is the token.
        raise ClusterError("the token or the address cannot be sent", "config") from None
    except httpx2.TransportError as error:
        raise ClusterError(f"the connection broke: {error}", "dropped") from None


def _is_about_tls(error: BaseException) -> bool:
    reason: BaseException | None = error
    while reason is not None and not isinstance(reason, ssl.SSLError):
        reason = reason.__cause__ or reason.__context__
    return reason is not None
