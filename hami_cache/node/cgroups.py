"""Which pod and which container a process' cgroup path names."""

from __future__ import annotations

import re
from dataclasses import dataclass

GO_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Go's strings.TrimSpace takes off; Python's str.strip would take U+001C..U+001F as well."""

_HEX = "[0-9a-fA-F]"
_STATIC_UID = f"{_HEX}{{32}}"
_BARE_UID = f"{_HEX}{{8}}(?:[-_]{_HEX}{{4}}){{3}}[-_]{_HEX}{{12}}"
_SLICE_UID = f"{_HEX}{{8}}(?:_{_HEX}{{4}}){{3}}_{_HEX}{{12}}"
_BARE_POD = re.compile(f"pod({_BARE_UID}|{_STATIC_UID})")
_SLICE_POD = re.compile(f"(?!pod).*-pod({_SLICE_UID}|{_STATIC_UID})\\.slice", re.DOTALL)
_CONTAINER = re.compile(
    f"(?:cri-containerd-|containerd-|crio-|docker-)({_HEX}{{8,}})\\.scope|({_HEX}{{8,}})"
)


@dataclass(frozen=True, slots=True)
class CgroupIdentity:
    """What a cgroup file says: a pod and a container, or the reason why it says neither."""

    pod_uid: str = ""
    container_id: str = ""
    reason: str = ""


def parse_cgroup(content: str) -> CgroupIdentity:
    """Read the pod and the container out of a ``/proc/<pid>/cgroup``.

    Every line counts, v1 and v2, cgroupfs and systemd: two pods, or two containers below their
    pods, are a refusal.
    """
    pods: set[str] = set()
    containers: set[str] = set()
    for line in content.split("\n"):
        fields = line.strip(GO_SPACE).split(":", 2)
        if len(fields) < 3:
            continue
        in_pod = False
        for segment in fields[2].split("/"):
            if pod := _BARE_POD.fullmatch(segment) or _SLICE_POD.fullmatch(segment):
                pods.add(pod[1].lower().replace("_", "-"))
                in_pod = True
            elif in_pod and (container := _CONTAINER.fullmatch(segment)):
                containers.add((container[1] or container[2]).lower())
    if len(pods) != 1:
        return CgroupIdentity(reason="ambiguous_pod" if pods else "no_pod_component")
    if len(containers) != 1:
        return CgroupIdentity(
            reason="ambiguous_container" if containers else "no_container_component"
        )
    return CgroupIdentity(pods.pop(), containers.pop())
