"""What a YAML scalar means to yaml.v2 2.4.0, and how its numbers are spelled.

YAML 1.1 with Go's number syntax: ``yes`` and ``on`` are true, ``0777`` is octal, ``1_000`` a
thousand, ``1e3`` a float, ``1:30`` and ``2024-01-02`` are text.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import math
import re
from decimal import Decimal

import numpy

from hami_cache.errors import ConfigError

Scalar = str | int | float | bool | None

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1

_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}

_BASES = {"0x": 16, "0b": 2, "0o": 8}
_INTEGER = re.compile(
    r"([-+]?)(?:(0[xX])([0-9a-fA-F]+)|(0[bB])([01]+)|(0[oO])([0-7]+)|(0)([0-7]*)|([1-9][0-9]*))"
)
_SIGN_AFTER_PREFIX = re.compile(r"0b([-+][01]+)")  # 0b-101: accepted there by an accident of order
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?:[Tt]| +)([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?"
    r"(Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
_TAG_PREFIX = "tag:yaml.org,2002:"


def resolve(text: str) -> Scalar:
    """The value of a plain scalar without a tag. What looks like a timestamp stays text."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    first = text[0]
    if first == ".":
        return _float(text.replace("_", ""), text) if _DOT_FLOAT.fullmatch(text) else text
    if first not in "+-0123456789" or is_timestamp(text):
        return text
    plain = text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    return _float(plain, text) if _FLOAT.fullmatch(plain) else text


def resolve_tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar that carries a tag.

    Raises:
        ConfigError: the text is not of the kind that its tag says.
    """
    kind = tag.removeprefix(_TAG_PREFIX) if tag.startswith(_TAG_PREFIX) else ""
    if kind == "binary":
        return _binary(text)
    if kind not in ("bool", "int", "float", "null", "timestamp"):
        return text  # !!str, and every tag unknown to yaml.v2: the text as it stands
    value = resolve(text)
    if kind == "timestamp" and is_timestamp(text):
        return text
    if kind == "float" and type(value) is int and value <= INT_MAX:
        return float(value)
    expected = {"bool": bool, "int": int, "float": float, "null": type(None)}.get(kind)
    if type(value) is not expected:
        raise ConfigError(f"{text[:40]!r} is tagged !!{kind} and is none")
    return value


def needs_quotes(text: str) -> bool:
    """Whether the text, written plain, would be read back as something else."""
    return (
        not isinstance(resolve(text), str)
        or is_timestamp(text)
        or _BASE_60.fullmatch(text) is not None
    )


def is_timestamp(text: str) -> bool:
    """Whether yaml.v2 takes the text for a date, or for a date and a time."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.group(1, 2, 3))
    if not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year or 400, month)[1]:
        return False
    if match[4] is None:
        return True
    hour, minute, second = (int(part) for part in match.group(4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        return False
    # A "T" needs a zone, a space must have none.
    zone = match[7]
    if (zone is not None) != (text[match.end(3)] in "Tt"):
        return False
    return zone in (None, "Z") or (int(zone[1:3]) <= 24 and int(zone[4:6]) <= 60)


def go_float(value: float) -> str:
    """A finite float in the shortest form of Go's format ``g``: ``0.5``, ``1e+06``, ``1.5e-07``."""
    number = Decimal(repr(value))
    if value and not -4 <= number.adjusted() < 6:
        sign, digits, _ = number.normalize().as_tuple()
        first, rest = str(digits[0]), "".join(map(str, digits[1:]))
        mantissa = first + ("." + rest if rest else "")
        return f"{'-' if sign else ''}{mantissa}e{number.adjusted():+03d}"
    return format(number, "f").removesuffix(".0")


def float_as_text(value: float) -> str:
    """A float where text is wanted, as a key or a uuid: cut to 32-bit precision on the way."""
    with numpy.errstate(over="ignore"):
        single = float(str(numpy.float32(value)))
    if math.isfinite(single):
        return go_float(single)
    return ".nan" if single != single else ".inf" if single > 0 else "-.inf"


def json_number(value: float) -> int | float:
    """A finite float after a trip through JSON text: a whole one of 64 bits becomes an integer.

    The integer is the one whose decimal text Go's JSON prints, which past 2^53 is not the float's
    exact value.
    """
    shortest = Decimal(repr(value))
    if shortest != shortest.to_integral_value() or not INT_MIN <= shortest <= UINT_MAX:
        return value
    return int(shortest)


def _integer(plain: str) -> int | None:
    match = _INTEGER.fullmatch(plain)
    if match is None:
        late = _SIGN_AFTER_PREFIX.fullmatch(plain)
        value = int(late[1], 2) if late else None
        return value if value is not None and INT_MIN <= value <= INT_MAX else None
    sign, *groups = match.groups()
    *prefixed, decimal = groups
    base, digits = 10, decimal
    if decimal is None:
        prefix, digits = (group for group in prefixed if group is not None)
        base = _BASES.get(prefix.lower(), 8)
    try:
        value = int(digits or "0", base)
    except ValueError:  # more decimal digits than Python converts: far beyond 64 bits
        return None
    value = -value if sign == "-" else value
    return value if INT_MIN <= value <= (INT_MAX if sign else UINT_MAX) else None


def _float(plain: str, text: str) -> float | str:
    """The float, or the text itself when the number is beyond a float's range, as in yaml.v2."""
    value = float(plain)
    return text if math.isinf(value) else value


def _binary(text: str) -> str:
    try:
        data = base64.b64decode("".join(text.split("\n")), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("a !!binary value is not base64") from None
    # JSON carries no bytes: each one that is not UTF-8 becomes a replacement character.
    return re.sub("[\udc80-\udcff]", "�", data.decode("utf-8", "surrogateescape"))
