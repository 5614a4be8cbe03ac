"""The cards of a simulated node, from the profile that its NVML library reads (``config.yaml``)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hami_cache.allocwatch.goyaml import Json, load
from hami_cache.allocwatch.goyaml.scalars import INT_MAX, INT_MIN, UINT_MAX
from hami_cache.allocwatch.goyaml.typed import as_list, as_map, as_text, as_whole, member
from hami_cache.allocwatch.reconcile import Device
from hami_cache.errors import ConfigError
from hami_cache.read.source import read_all

DEFAULT_PROFILE = Path("/var/lib/nvml-mock/driver/config/config.yaml")

MAX_DEVICES = 1024
"""More cards than any node has; the simulated NVML itself shows eight."""

_DEFAULT_COUNT = 8


class ProfileError(ConfigError):
    """A profile that cannot be used.

    Attributes:
        kind: ``parse`` for a text that does not have the profile's shape, ``validate`` for one that
            lacks something or contradicts itself.
    """

    def __init__(
        self, kind: Literal["parse", "validate"], message: str, field: str | None = None
    ) -> None:
        super().__init__(message, field=field)
        self.kind = kind


def load_profile(path: Path) -> list[Device]:
    """Read the profile's cards.

    Raises:
        SourceError: the file cannot be read.
        ProfileError: it is not a profile.
    """
    text = read_all(path, follow=True)
    try:
        return devices_of(text)
    except ProfileError as error:
        error.path = str(path)
        raise


def devices_of(text: bytes) -> list[Device]:
    """The cards 0..n-1 of a profile's text.

    n is `system.num_devices` if positive, else the length of `devices`, else 8. A card that is not
    listed has no uuid and the default memory; a listed index past n is never reached. A card's own
    `memory` replaces the default block whole.

    Raises:
        ProfileError: the text is not a profile.
    """
    try:
        return _devices(load(text, strict=False))
    except ProfileError:
        raise
    except ConfigError as error:
        raise ProfileError("parse", error.message, error.field) from None


def _devices(profile: Json) -> list[Device]:
    version = as_text(member(profile, "version", "profile"), "version")
    system = member(profile, "system", "profile")
    driver = as_text(member(system, "driver_version", "system"), "system.driver_version")
    wanted = member(system, "num_devices", "system")
    count = as_whole(wanted, INT_MIN, INT_MAX, "system.num_devices")
    defaults = member(profile, "device_defaults", "profile")
    common = _memory(member(defaults, "memory", "device_defaults"), "device_defaults.memory")
    listed = [
        _listed(entry, f"devices[{place}]", common or (0, 0))
        for place, entry in enumerate(as_list(member(profile, "devices", "profile"), "devices"))
    ]
    for field, value in (("version", version), ("system.driver_version", driver)):
        if not value:
            raise ProfileError("validate", "missing", field)
    by_index = {device.index: device for device in listed}
    if len(by_index) < len(listed):
        raise ProfileError("validate", "two cards have the same index", "devices")
    count = count if count > 0 else len(listed) or _DEFAULT_COUNT
    if count > MAX_DEVICES:
        raise ProfileError("validate", f"more than {MAX_DEVICES} cards", "system.num_devices")
    return [by_index.get(i) or Device(i, "", *(common or (0, 0))) for i in range(count)]


def _listed(entry: Json, where: str, common: tuple[int, int]) -> Device:
    index = as_whole(member(entry, "index", where), INT_MIN, INT_MAX, f"{where}.index")
    uuid = as_text(member(entry, "uuid", where), f"{where}.uuid")
    own = _memory(member(entry, "memory", where), f"{where}.memory")
    return Device(index, uuid, *(common if own is None else own))


def _memory(block: Json, where: str) -> tuple[int, int] | None:
    """Total and reserved bytes; None for no block, which differs from an empty one."""
    if block is None:
        return None
    as_map(block, where)
    total, reserved = (
        as_whole(member(block, name, where), 0, UINT_MAX, f"{where}.{name}")
        for name in ("total_bytes", "reserved_bytes")
    )
    return total, reserved
