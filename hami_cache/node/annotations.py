"""Reading one annotation of a pod: bounded, typed, refused as a whole."""

from __future__ import annotations

from typing import Any

from hami_cache.errors import HamiCacheError
from hami_cache.node.gojson import GoJsonError, Reader, decode
from hami_cache.node.pods import Pod

MAX_ANNOTATION_CHARS = 256 * 1024
"""What Kubernetes allows for all annotations of an object together."""


class AllocationError(HamiCacheError):
    """An allocation annotation that cannot be read.

    `path` names the pod, `field` the annotation.
    """


def annotation(pod: Pod, key: str) -> str:
    """The annotation's text, "" if the pod has none.

    Raises:
        AllocationError: longer than Kubernetes allows, so it did not come from there.
    """
    text = pod.annotations.get(key, "")
    if len(text) > MAX_ANNOTATION_CHARS:
        raise refusal(pod, key, f"longer than {MAX_ANNOTATION_CHARS} characters")
    return text


def decoded(pod: Pod, key: str, reader: Reader) -> Any:
    """The annotation's JSON as `reader` reads it, its zero value if the pod has none.

    Raises:
        AllocationError: not JSON of that type.
    """
    text = annotation(pod, key)
    if not text:
        return reader.zero
    try:
        return decode(text, reader)
    except GoJsonError as error:
        raise refusal(pod, key, str(error)) from None


def refusal(pod: Pod, key: str, message: str) -> AllocationError:
    """The error that says which pod's which annotation is bad."""
    return AllocationError(message, path=f"pod {pod.namespace}/{pod.name}", field=key)
