"""The parser of C declarations: what it understands and refuses, and that nothing breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_cache.errors import HamiCacheError
from hami_cache.spec import registry
from hami_cache.toolkit.check import check
from hami_cache.toolkit.compare import compare
from hami_cache.toolkit.expressions import NotConstantError, evaluate
from hami_cache.toolkit.header import read_header
from hami_cache.toolkit.shape import Shape, ShapeError
from tests.toolkit.headers import CC, JUDGES, header_of, needs_cc, write

V12_HEADER = header_of(registry.layout("v1.2"))


def shape_of(folder: Path, text: str, cc: str = "none", struct: str = "t") -> Shape:
    return read_header(write(folder, text), cc=cc, struct=struct)


def places(shape: Shape) -> dict[str, tuple[int, int, int]]:
    return {f.name: (f.offset, f.ctype.size, f.count) for f in shape.region.fields}


@pytest.mark.parametrize("cc", JUDGES)
def test_declarations_of_every_kind(tmp_path: Path, cc: str) -> None:
    text = """
    enum { N = 3, M, };
    enum colour { RED };
    typedef uint64_t bytes_t;
    typedef bytes_t vector_t[4];
    typedef char name_t[10];
    struct inner { int8_t a; short b; };
    typedef struct inner inner_t;
    typedef volatile struct tagged {
        _Atomic(uint8_t) flag; const char c, d[N];
        long unsigned int words[M]; unsigned u; enum colour colour;
        bytes_t total; vector_t vectors[2]; name_t one, many[N]; char grid[2][N * 2 - 1];
        struct inner *next; void *const *p[2]; inner_t in; struct inner ins[2];
        struct { uint16_t x; uint32_t y; } anonymous[2];
    } t;
    """
    assert places(shape_of(tmp_path, text, cc)) == {
        "flag": (0, 1, 1), "c": (1, 1, 1), "d": (2, 1, 3), "words": (8, 8, 4), "u": (40, 4, 1),
        "colour": (44, 4, 1), "total": (48, 8, 1), "vectors": (56, 8, 8), "one": (120, 10, 1),
        "many": (130, 10, 3), "grid": (160, 5, 2), "next": (176, 8, 1), "p": (184, 8, 2),
        "in": (200, 4, 1), "ins": (204, 4, 2), "anonymous": (212, 8, 2),
    }  # fmt: skip
    tagged = read_header(tmp_path / "shared.h", cc=cc, struct="tagged")
    assert tagged.region.sizeof == 232


@pytest.mark.parametrize("cc", JUDGES)
def test_the_region_by_tag(tmp_path: Path, cc: str) -> None:
    shape = shape_of(tmp_path, "struct shared_region { int a; long b; };", cc, "shared_region_t")
    assert places(shape) == {"a": (0, 4, 1), "b": (8, 8, 1)}


@needs_cc
def test_only_a_compiler_knows_attributes(tmp_path: Path) -> None:
    text = "typedef struct __attribute__((packed)) { char a; long b; _Alignas(16) int c; } t;"
    assert places(shape_of(tmp_path, text, CC)) == {"a": (0, 1, 1), "b": (1, 8, 1), "c": (16, 4, 1)}
    with pytest.raises(ShapeError, match=r"attributes.*a C compiler could tell"):
        shape_of(tmp_path, text)


@needs_cc
@pytest.mark.parametrize(
    "text",
    [
        "#pragma pack(push, 1)\ntypedef struct { char a; long b; } t;\n#pragma pack(pop)\n",
        '#define TIGHT _Pragma("pack(1)")\nTIGHT typedef struct { char a; long b; } t;',
        "typedef struct { char a; long b;\n# pragma  pack(1)\n} t;",
    ],
)
def test_only_a_compiler_knows_pragmas(tmp_path: Path, text: str) -> None:
    assert places(shape_of(tmp_path, text, CC)) == {"a": (0, 1, 1), "b": (1, 8, 1)}
    with pytest.raises(ShapeError, match="#pragma"):
        shape_of(tmp_path, text)


@needs_cc
def test_only_a_compiler_knows_sizes_in_bounds_and_outside_types(tmp_path: Path) -> None:
    text = "typedef struct { char a[sizeof(long) * 2]; pthread_mutex_t lock; time_t now; } t;"
    assert places(shape_of(tmp_path, text, CC))["lock"] == (16, 40, 1)
    with pytest.raises(ShapeError, match=r"t\.a: .*a C compiler could tell"):
        shape_of(tmp_path, text)
    with pytest.raises(ShapeError, match=r"t\.lock: its type pthread_mutex_t is not declared"):
        shape_of(tmp_path, "typedef struct { pthread_mutex_t lock; } t;")


@pytest.mark.parametrize("cc", JUDGES)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("typedef struct { CUcontext c; } t;", "CUcontext"),
        ("typedef struct { int a[LIMIT]; } t;", "LIMIT"),
        ("typedef struct { int a : 3; } t;", "bit field"),
        ("typedef struct { union { int a; long b; } u; } t;", "a union"),
        ("typedef union { int a; long b; } u; typedef struct { u b; } t;", r"t\.b: .* a union"),
        ("typedef struct { struct { int a; }; } t;", "without a name"),
        ("typedef struct { ATOMIC(int) a; } t;", "a macro"),
        ("typedef struct { int a; long a; } t;", "same name"),
        ("typedef struct t { struct t inner; } t;", "holds itself|incomplete"),
        ("typedef struct { } t;", "no members"),
        ("typedef a b; typedef b a; typedef struct { a x; } t;", "circle"),
        ("typedef struct { int a[0 - 1]; } t;", "-1|negative"),
        ("typedef struct { int a; ", "does not end"),
        ("int t;", "no struct t"),
        ("typedef int t;", "no struct t"),
        ("#if 1\ntypedef struct { int a; } t;", "ends inside #if"),
        ("#endif\n", "#endif without #if"),
        ("#if 1 / 0\n#endif\n", "cannot decide #if"),
    ],
)
def test_what_is_not_understood_is_said(tmp_path: Path, cc: str, text: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message) as error:
        shape_of(tmp_path, text, cc)
    assert "shared.h" in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"nothing\.h: cannot be read: No such file"):
        read_header(tmp_path / "nothing.h")
    with pytest.raises(ShapeError, match="cannot be read"):
        read_header(tmp_path)


def test_conditionals_choose(tmp_path: Path) -> None:
    text = """
    #ifdef A
    typedef struct { char a; } t;
    #elif defined(B) && B >= 2 || __has_include(<cuda.h>)
    typedef struct { short a; } t;
    #else
    typedef struct { long a; } t;
    #endif
    """
    path = write(tmp_path, text)

    def size(**defines: str) -> int:
        return read_header(path, cc="none", struct="t", defines=defines).region.sizeof

    assert size(A="1") == 1
    assert size(B="2") == 2
    assert size(B="1") == size() == 8


@pytest.mark.parametrize(
    "bomb",
    [
        "".join(f"#define a{i} a{i + 1} a{i + 1}\n" for i in range(30)) + "a0\n",
        "".join(f"#define a{i} a{i + 1} a{i + 1}\n" for i in range(30)) + "#define a30\n#if a0\n",
        "#define a b\n#define b a\na b\n",
        "typedef struct { int a[" + "(" * 5000 + "1" + ")" * 5000 + "]; } t;",
        "typedef " + "struct { " * 2000 + "int a; " + "} a; " * 2000 + "} t;",
        "typedef struct { int a[1 << 62][1 << 62]; } t;",
        "typedef struct { int a[1 << 40]; } t;",
        "#include \"shared.h\"\n",
        "/* " + "*" * 100_000,
        "{" * 100_000,
        "\\\n" * 50_000,
        "typedef struct { " + "".join(f"int a{i}; " for i in range(3000)) + "} t;",
        "#if 1\n" * 30_000,
        "{}" * 30_000 + ";",
        "typedef struct { int x; } s0;"
        + "".join(f"typedef struct {{ s{i} x; }} s{i + 1};" for i in range(2000))
        + "typedef struct { s2000 x; } t;",
    ],
    ids=["doubling", "doubling-to-nothing", "circle", "parentheses", "structs", "overflow", "huge",
         "itself", "comment", "braces", "continuations", "fields",
         "conditions", "no-functions", "chain"],
)  # fmt: skip
def test_hostile_headers_end_in_one_line(tmp_path: Path, bomb: str) -> None:
    with pytest.raises(HamiCacheError) as error:
        shape_of(tmp_path, bomb)
    assert "\n" not in str(error.value)


def test_structs_that_double_are_compared_once(tmp_path: Path) -> None:
    """Thirty structs, each holding the one before twice, have a thousand million paths."""
    text = "typedef struct { int a; } s0;" + "".join(
        f"typedef struct {{ s{i} a, b; }} s{i + 1};" for i in range(30)
    )
    shape = shape_of(tmp_path, text + "typedef struct { s30 a; } t;")
    assert len(compare(shape, shape).structs) == 32
    assert not check(shape, registry.layouts()).passed


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_headers_never_crash(tmp_path: Path, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(V12_HEADER)))
    length = data.draw(st.integers(0, 200))
    junk = data.draw(st.text(alphabet="{}()[];,#\"'\\/*<>= \n_aZ019:", max_size=20))
    text = V12_HEADER[:start] + junk + V12_HEADER[start + length :]
    try:
        shape_of(tmp_path, text, struct="shared_region_t")
    except HamiCacheError as error:
        assert "\n" not in str(error)


_TYPES = st.sampled_from(
    ["char", "int8_t", "uint16_t", "_Atomic int32_t", "uint64_t", "long", "sem_t", "uuid", "pair",
     "unsigned short", "void *", "double"]
)  # fmt: skip
_MEMBERS = st.lists(
    st.tuples(_TYPES, st.sampled_from(["", "[1]", "[3]", "[N]", "[2][5]"])), min_size=1, max_size=9
)


@needs_cc
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(structs=st.lists(_MEMBERS, min_size=5, max_size=25))
def test_our_arithmetic_is_the_compilers(
    tmp_path: Path, structs: list[list[tuple[str, str]]]
) -> None:
    lines = ["#define N 7", "typedef char uuid[96];", "typedef struct { char a; short b; } pair;"]
    for index, members in enumerate(structs):
        inner = "".join(f"{kind} m{i}{bounds}; " for i, (kind, bounds) in enumerate(members))
        lines.append(f"typedef struct {{ {inner} }} s{index};")
    whole = "".join(f"s{index} f{index}[2]; char c{index}; " for index in range(len(structs)))
    text = "\n".join([*lines, f"typedef struct {{ {whole} }} t;"])
    assert shape_of(tmp_path, text).structs == shape_of(tmp_path, text, CC).structs


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("( 1 + 2 ) * 3", 9), ("1 << 4 | 1", 17), ("0x10", 16), ("010", 8),
        ("0b11", 3), ("16UL", 16), ("1_000", 1000), ("- 7 / 2", -3), ("- 7 % 2", -1), ("~ 0", -1),
        ("! 5", 0), ("3 > 2 && 1 != 1", 0), ("0 ? 4 : 5", 5), ("'a'", 97), ("7 >> 1", 3), ("0", 0),
    ],
)  # fmt: skip
def test_expressions(text: str, value: int) -> None:
    assert evaluate(text.split(), lambda _: None) == value


@pytest.mark.parametrize("text", ["", "1 +", "( 1", "x", "1 / 0", "1 << 99", "1 2", '"a"', "1e3"])
def test_what_is_no_constant(text: str) -> None:
    with pytest.raises(NotConstantError):
        evaluate(text.split(), lambda _: None)
