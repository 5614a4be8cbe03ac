"""The errors this library raises on purpose.

Everything that can go wrong with an input is a `HamiCacheError`: it says what is wrong, where
(file, field path, byte offset) and, where that is known, what to do. Anything else that escapes is
a bug of ours.
"""

from __future__ import annotations


class HamiCacheError(Exception):
    """Something about an input that the caller can be told in one line.

    Args:
        message: what is wrong, without the place.
        path: the file (or directory, or socket) concerned.
        field: a field path such as ``procs[3].used[0].total`` or a TOML key path.
        offset: a byte offset inside the file.
        hint: what the reader of the message can do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        path: object = None,
        field: str | None = None,
        offset: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else one_line(str(path))
        self.field = field
        self.offset = offset
        self.hint = hint

    def __str__(self) -> str:
        """One line: ``file: field at offset N: message; hint``, leaving out what is unknown."""
        where = []
        if self.path is not None:
            where.append(self.path)
        if self.field is not None and self.offset is not None:
            where.append(f"{self.field} at offset {self.offset}")
        elif self.field is not None:
            where.append(self.field)
        elif self.offset is not None:
            where.append(f"offset {self.offset}")
        text = ": ".join([*where, self.message])
        return one_line(f"{text}; {self.hint}" if self.hint else text)


class LayoutError(HamiCacheError):
    """A layout file or a layout name that cannot be used."""


class SourceError(HamiCacheError):
    """A file that cannot be opened safely: wrong kind, unreadable, of an impossible size, gone."""


class NotInitialisedError(HamiCacheError):
    """A cache file that its writer has not initialised yet: magic still 0, or no bytes."""


class UnknownLayoutError(HamiCacheError):
    """Bytes that no known layout explains."""


class FieldError(HamiCacheError):
    """A field path that does not exist in a layout."""


class ConfigError(HamiCacheError):
    """A setting, an option or an environment variable that makes no sense."""


def one_line(text: str) -> str:
    """Escape what is not printable: a file name is tenant input and must not forge lines."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
