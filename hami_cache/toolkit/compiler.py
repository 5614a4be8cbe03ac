"""Offsets from a C compiler, for any machine it compiles for, without running anything.

The declarations that the region needs go, alone, into a file of their own together with questions;
the compiler writes assembly, and the answers stand in it. So a cross compiler answers as well as
the machine's own, nothing of the header is executed, and headers that are not there (``cuda.h``)
are not needed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hami_cache.errors import ConfigError
from hami_cache.spec.layout import CType, Field, Kind, Struct
from hami_cache.toolkit.arithmetic import KNOWN_TYPES, MAX_NESTING, field_of, resolve
from hami_cache.toolkit.cdecl import Declarations, Member
from hami_cache.toolkit.ctokens import NAME
from hami_cache.toolkit.expressions import NotConstantError
from hami_cache.toolkit.shape import ShapeError

USUAL = ("cc", "gcc", "clang")
TIMEOUT_SECONDS = 60
MARK = "hami-cache-answer"

PRELUDE = """\
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
"""

Ask = Callable[[str], int]
"""Answers an integer constant expression of C."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that works.

    Attributes:
        command: how to call it: a path, and arguments where ``$CC`` has some.
        name: what it calls itself, version included.
        machine: what it compiles for, such as ``x86_64-linux-gnu``.
    """

    command: tuple[str, ...]
    name: str
    machine: str

    def __str__(self) -> str:
        return f"{self.name} for {self.machine}"


def find_compiler(wanted: str | None = None) -> Compiler | None:
    """The compiler to ask.

    Args:
        wanted: a command; None takes ``$CC``, then the usual names.

    Returns:
        None if nobody asked for one and there is none.

    Raises:
        ConfigError: the one asked for does not work.
    """
    asked = wanted or os.environ.get("CC")
    if not asked:
        usual = next(filter(shutil.which, USUAL), None)
        return _identify((usual,)) if usual else None
    try:
        command = tuple(shlex.split(asked))
    except ValueError:
        command = (asked,)
    if not command or shutil.which(command[0]) is None:
        raise ConfigError(f"no C compiler is called {asked!r}", hint="--cc none does without")
    return _identify(command)


@lru_cache(maxsize=8)
def _identify(command: tuple[str, ...]) -> Compiler:
    machine = _run([*command, "-dumpmachine"])
    version = _run([*command, "--version"])
    if machine.returncode or version.returncode or not version.stdout.strip():
        raise ConfigError(f"{command[0]} does not answer as a C compiler does")
    return Compiler(command, version.stdout.splitlines()[0], machine.stdout.strip())


def place(found: Declarations, base: str, compiler: Compiler, source: object) -> dict[str, Struct]:
    """The struct called `base` and all that it holds, inner ones first, by the compiler.

    Raises:
        ShapeError: the compiler refuses the declarations; says why in its words.
    """
    questions: dict[str, int] = {}

    def collect(expression: str) -> int:
        return questions.setdefault(expression, 1)

    _Builder(found, collect, source).struct(base, _c_type(found, base))
    answers = _compile(found, base, list(questions), compiler, source)
    builder = _Builder(found, answers.__getitem__, source)
    builder.struct(base, _c_type(found, base))
    return builder.structs


class _Builder:
    """Builds structs out of answers: run once to learn the questions, and again with them."""

    def __init__(self, found: Declarations, ask: Ask, source: object) -> None:
        self._found = found
        self._ask = ask
        self._source = source
        self._open: list[str] = []
        self.structs: dict[str, Struct] = {}

    def struct(self, base: str, ctype: str) -> Struct:
        """One struct; `ctype` is how C calls it."""
        title = self._found.title(base)
        if title in self.structs:
            return self.structs[title]
        if base in self._open or len(self._open) > MAX_NESTING:
            raise ShapeError(f"{title} holds itself, or too much", path=self._source)
        self._open.append(base)
        fields = [self._field(ctype, member, title) for member in self._found.structs[base].members]
        if not fields:
            raise ShapeError(f"{title} has no members", path=self._source)
        self._open.pop()
        size, align = self._ask(f"sizeof({ctype})"), self._ask(f"_Alignof({ctype})")
        self.structs[title] = Struct(title, size, align, tuple(fields))
        return self.structs[title]

    def _field(self, parent: str, member: Member, title: str) -> Field:
        try:
            resolved = resolve(self._found, member)
        except NotConstantError as error:
            field = f"{title}.{member.name}"
            raise ShapeError(str(error), path=self._source, field=field) from None
        if reason := self._found.failure(resolved.base):
            raise ShapeError(reason, path=self._source, field=f"{title}.{member.name}")
        known = KNOWN_TYPES.get(resolved.base)
        whole = f"(({parent} *)0)->{member.name}"
        levels = len(resolved.bounds)
        texts = not resolved.text and known is not None and known.size == 1 and levels > 1
        if resolved.text or texts:
            levels -= 1
        element = whole + "[0]" * levels
        size = self._ask(f"sizeof({element})")
        count = self._ask(f"sizeof({whole})") // max(size, 1)
        align = self._ask(f"_Alignof(__typeof__({element}))")
        name, kind = resolved.name, known.kind if known else _opaque(size)
        if resolved.pointer:
            kind = "unsigned"
        elif resolved.base in self._found.structs:
            name, kind = self.struct(resolved.base, f"__typeof__({element})").name, "struct"
        elif resolved.text or texts:
            name, kind = (name if resolved.text else f"{name}[{size}]"), "text"
        offset = self._ask(f"offsetof({parent}, {member.name})")
        return field_of(member, CType(name, size, align, kind), offset, count, levels > 0)


def _opaque(size: int) -> Kind:
    """What a type is that only the compiler knows: a number if it has a number's size."""
    return "unsigned" if size in (1, 2, 4, 8) else "text"


def _c_type(found: Declarations, base: str) -> str:
    return found.title(base) if found.title(base) in found.aliases else base


def _compile(
    found: Declarations, base: str, questions: list[str], compiler: Compiler, source: object
) -> Mapping[str, int]:
    lines = [PRELUDE, *_needed(found, found.title(base)), "void hami_cache_questions(void) {"]
    for index, question in enumerate(questions):
        # The "i" constraint takes constants only, %c prints one bare on every machine, and a text
        # survives compilers that read their own assembly and drop comments.
        answer = f'.ascii \\"{MARK} {index} %c0;\\"'
        lines.append(f'__asm__ volatile("{answer}" : : "i"((long)({question})));')
    with tempfile.TemporaryDirectory(prefix="hami-cache-layout-") as folder:
        code, assembly = Path(folder, "region.c"), Path(folder, "region.s")
        code.write_text("\n".join([*lines, "}", ""]))
        flags = ["-std=gnu11", "-w", "-O0", "-S", "-o", str(assembly), str(code)]
        done = _run([*compiler.command, *flags])
        if done.returncode or not assembly.is_file():
            raise ShapeError(
                f"the C compiler refuses the struct: {_first_error(done.stderr)}",
                path=source,
                hint="give what is missing with -I or -D",
            )
        text = assembly.read_text(errors="replace")
    answers = dict(re.findall(rf"{MARK} (\d+) (-?\d+);", text))
    return {question: int(answers[str(index)]) for index, question in enumerate(questions)}


def _needed(found: Declarations, name: str) -> list[str]:
    """The declarations that a name needs, in the header's order, as C."""
    declares = {n: i for i, (names, _) in enumerate(found.pieces) for n in names if n}
    wanted, todo = set[int](), [name]
    while todo:
        index = declares.get(todo.pop())
        if index is not None and index not in wanted:
            wanted.add(index)
            todo += [t for t in found.pieces[index][1].raw if NAME.fullmatch(t)]
    lines = []
    for index, (names, piece) in enumerate(found.pieces):
        if index in wanted:
            lines.append(" ".join(piece.raw))
        elif not names and piece.raw[0].startswith("#pragma"):
            lines.append(piece.raw[0])
    return lines


def _first_error(text: str) -> str:
    match = re.search(r"error: (.*)", text)
    return match[1] if match else (text.strip().splitlines() or ["it gives no reason"])[0]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS,
            env={**os.environ, "LC_ALL": "C"}, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{command[0]} did not finish in {TIMEOUT_SECONDS} s") from None
    except OSError as error:
        raise ConfigError(f"{command[0]} cannot be run: {error.strerror}") from None
