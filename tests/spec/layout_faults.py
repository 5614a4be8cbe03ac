"""Ways in which a layout file can be wrong, and what must be said about each."""

from __future__ import annotations

from collections.abc import Callable

from hami_cache.spec import registry

GOOD = (registry.builtin_folder() / "v1.2.toml").read_text()
Edit = Callable[[str], str]


def put(old: str, new: str) -> Edit:
    """Replace the first occurrence, which must be there."""

    def edit(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return edit


SEQLOCK = '[seqlock]\nfield = "procs.seqlock"\ncovers = ["procs.used"]'
PROBE = '{ kind = "size", weight = 2.0 }'
STATUS = '{ name = "status", type = "_Atomic int32_t", offset = 1928 }'
PID = '{ name = "pid", type = "_Atomic int32_t", offset = 0 }'
TYPE = 'sem_t = { size = 32, align = 8, kind = "semaphore" }'
SLOT = 'name = "shrreg_proc_slot_t"\n'
REGION = 'name = "shared_region_t"\n'

FAULTS: dict[str, tuple[Edit, str, str]] = {
    # what is done to the file: (edit, key named, part of the message)
    "not toml": (lambda _: "format = = 1", "", "not a TOML file"),
    "not utf-8": (lambda _: "\udcff", "", "not a TOML file"),
    "a huge number": (put("order = 6", "order = " + "9" * 5000), "", "not a TOML file"),
    "a huge hexadecimal number": (
        put("order = 6", "order = 0x" + "f" * 5000),
        "order",
        "very large",
    ),
    "nested without end": (lambda text: "a = " + "[" * 100_000, "", "not a TOML file"),
    "too long": (lambda text: text + "#" * (1 << 20), "", "larger than"),
    "empty": (lambda _: "", "format", "is missing"),
    "no format": (put("format = 1\n", ""), "format", "is missing"),
    "another format": (put("format = 1", "format = 2"), "format", "reads format 1"),
    "a text for a number": (put("format = 1", 'format = "1"'), "format", "whole number, not '1'"),
    "a boolean for a number": (put("order = 6", "order = true"), "order", "whole number"),
    "a number for a text": (put('name = "v1.2"', "name = 1.2"), "name", "string"),
    "the wrong name": (put('name = "v1.2"', 'name = "v1.3"'), "name", "called v1.2.toml"),
    "a name with a newline": (put('name = "v1.2"', r'name = "v1\n2"'), "name", "letters"),
    "an unknown key": (put("order = 6", "order = 6\ncolour = 1"), "colour", "is not a key"),
    "an unknown key with a newline": (
        put("order = 6", 'order = 6\n"a\\nb" = 1'),
        "a\\nb",
        "is not a key",
    ),
    "no order": (put("order = 6 ", ""), "order", "is missing"),
    "a negative order": (put("order = 6", "order = -6"), "order", "between 0"),
    "no upstream": (put("[upstream]", "[downstream]"), "upstream", "is missing"),
    "commits no list": (
        put('commits = ["b69b1ea", "8f3a89c"]', 'commits = "b"'),
        "upstream.commits",
        "list",
    ),
    "commits no texts": (
        put('["b69b1ea", "8f3a89c"]', "[1]"),
        "upstream.commits",
        "list of strings",
    ),
    "an unknown upstream key": (put('since = "', 'hence = "'), "upstream.since", "is missing"),
    "big-endian": (
        put('byte_order = "little"', 'byte_order = "big"'),
        "abi.byte_order",
        "not supported",
    ),
    "32 bits": (put('"LP64"', '"ILP32"'), "abi.data_model", "not supported"),
    "the wrong sizeof": (put("sizeof = 2008952", "sizeof = 2008953"), "abi.sizeof", "has 2008952"),
    "a type of C": (
        put(TYPE, f"int = {{ size = 8, align = 8, kind = 'signed' }}\n{TYPE}"),
        "abi.types.int",
        "C's own",
    ),
    "a type of no kind": (
        put('kind = "semaphore" }', 'kind = "lock" }'),
        "abi.types.sem_t.kind",
        "one of",
    ),
    "a type of odd alignment": (
        put("align = 8, kind", "align = 3, kind"),
        "abi.types.sem_t.align",
        "1, 2, 4",
    ),
    "a type of no size": (put("size = 32", "size = 0"), "abi.types.sem_t.align", "multiple"),
    "a tiny semaphore": (put("size = 32", "size = 8"), "abi.types.sem_t.size", "at least 16"),
    "a number of 3 bytes": (
        put(TYPE, f"{TYPE}\nodd = {{ size = 3, align = 1, kind = 'signed' }}"),
        "abi.types.odd.size",
        "1, 2, 4 or 8",
    ),
    "a type with more keys": (
        put("align = 8, kind", "align = 8, wide = 1, kind"),
        "abi.types.sem_t.wide",
        "not a key",
    ),
    "no magic": (put("magic = {", "tragic = {"), "identity.magic", "is missing"),
    "magic elsewhere": (
        put('"initialized_flag", value', '"procs", value'),
        "identity.magic.field",
        "4-byte",
    ),
    "magic nowhere": (
        put('"initialized_flag", value', '"flag", value'),
        "identity.magic.field",
        "'flag'",
    ),
    "magic zero": (put("value = 19920718", "value = 0"), "identity.magic.value", "between 1"),
    "magic too large": (
        put("value = 19920718", "value = 4294967296"),
        "identity.magic.value",
        "between 1",
    ),
    "a probe of no kind": (
        put('kind = "size"', 'kind = "smell"'),
        "identity.probes[0].kind",
        "known: size",
    ),
    "a probe without weight": (
        put(PROBE, '{ kind = "size" }'),
        "identity.probes[0].weight",
        "is missing",
    ),
    "a probe of weight 0": (
        put(PROBE, '{ kind = "size", weight = 0 }'),
        "identity.probes[0].weight",
        "above 0",
    ),
    "a probe of weight nan": (
        put(PROBE, '{ kind = "size", weight = nan }'),
        "identity.probes[0].weight",
        "above 0",
    ),
    "a probe of huge weight": (
        put(PROBE, f'{{ kind = "size", weight = {10**30} }}'),
        "identity.probes[0].weight",
        "number",
    ),
    "a probe with a wrong key": (
        put("min = 0,", "mint = 0,"),
        "identity.probes[2].min",
        "needs one int",
    ),
    "a probe with one key more": (
        put("min = 0,", "min = 0, mid = 8,"),
        "identity.probes[2].mid",
        "not a key",
    ),
    "a probe with a text for a number": (
        put("min = 0,", 'min = "0",'),
        "identity.probes[2].min",
        "int",
    ),
    "a probe without a field": (
        put('field = "device_num", ', ""),
        "identity.probes[2].field",
        "needs a field",
    ),
    "a probe with a needless field": (
        put(PROBE, '{ kind = "size", field = "priority", weight = 2.0 }'),
        "identity.probes[0].field",
        "needs no field",
    ),
    "a probe of a field not there": (
        put('field = "sem_postinit"', 'field = "sem_late"'),
        "identity.probes[5]",
        "'sem_late'",
    ),
    "a probe of a field of another kind": (
        put('"range", field = "device_num"', '"range", field = "uuids"'),
        "identity.probes[2]",
        "kind text",
    ),
    "a text probe of a number": (
        put('"text", field = "uuids"', '"text", field = "limit"'),
        "identity.probes[3]",
        "kind unsigned",
    ),
    "a text probe of numbers": (
        put('prefixes = ["GPU-", "MIG-"]', "prefixes = [1]"),
        "identity.probes[3].prefixes",
        "list of str",
    ),
    "a text probe of nothing": (
        put('prefixes = ["GPU-", "MIG-"]', "prefixes = []"),
        "identity.probes[3].prefixes",
        "list of str",
    ),
    "a semaphore probe of a number": (
        put('"semaphore", field = "sem",', '"semaphore", field = "priority",'),
        "identity.probes[4]",
        "kind signed",
    ),
    "a footer of texts": (
        put('switch = "utilization_switch"', 'switch = "uuids"'),
        "identity.probes[6]",
        "kind text",
    ),
    "slot values of texts": (
        put("values = [0, 1, 2]", 'values = ["0"]'),
        "identity.probes[7].values",
        "list of int",
    ),
    "slot values of the region": (
        put('field = "procs.status"', 'field = "priority"'),
        "identity.probes[7].field",
        "below procs",
    ),
    "a slot probe by the C name": (
        put('field = "procs.used.unused"', 'field = "procs.used.context_size"'),
        "identity.probes[9]",
        "logical name",
    ),
    "a slot probe of a struct": (
        put('"procs.unused"', '"procs.used"'),
        "identity.probes[8]",
        "kind struct",
    ),
    "a balance of nothing": (
        put('parts = ["context", "module", "data"]', "parts = []"),
        "identity.probes[11].parts",
        "list of str",
    ),
    "a balance of parts not there": (
        put('"context", "module"', '"context", "modul"'),
        "identity.probes[11]",
        "modul",
    ),
    "a balance of uneven parts": (
        put('total = "total"', 'total = "unused"'),
        "identity.probes[11]",
        "differ",
    ),
    "a version probe without a version": (
        put("version = { major = 1, minor = 2 }\n", ""),
        "identity.probes[1]",
        "identity.version",
    ),
    "a seqlock nobody wrote down": (put(SEQLOCK, ""), "seqlock", "is missing"),
    "a seqlock elsewhere": (
        put(SEQLOCK, SEQLOCK.replace('seqlock"', 'pid"')),
        "seqlock.field",
        "procs.seqlock",
    ),
    "a seqlock that covers nothing": (
        put('covers = ["procs.used"]', "covers = []"),
        "seqlock.covers",
        "procs.used",
    ),
    "a seqlock that covers what is not there": (
        put('covers = ["procs.used"]', 'covers = ["procs.used", "x"]'),
        "seqlock.covers",
        "'x'",
    ),
    "a seqlock of no table": (
        lambda text: "seqlock = 3\n" + put(SEQLOCK, "")(text),
        "seqlock",
        "table",
    ),
    "no region": (
        put('struct = "shared_region_t"', 'struct = "region"'),
        "region.struct",
        "'region'",
    ),
    "structs no tables": (
        lambda text: "structs = [1]\n" + text[: text.index("[[structs]]")],
        "structs",
        "list of tables",
    ),
    "a struct twice": (put(SLOT, 'name = "device_util_t"\n'), "structs[2].name", "defined twice"),
    "a struct without fields": (
        lambda text: (
            text[: text.index("fields = [")]
            + "fields = []\n"
            + text[text.index("[[structs]]", text.index("fields = [")) :]
        ),
        "structs[0].fields",
        "at least one",
    ),
    "a field that is no name": (
        put('name = "pid"', 'name = "p.id"'),
        "structs[2].fields[0].name",
        "identifier",
    ),
    "a field twice": (
        put('name = "hostpid"', 'name = "pid"'),
        "structs[2].fields[1].name",
        "twice",
    ),
    "a field of an unknown type": (
        put(PID, PID.replace("int32_t", "pid32_t")),
        "structs[2].fields[0].type",
        "not known",
    ),
    "a field of a later struct": (
        put('type = "device_memory_t"', 'type = "shared_region_t"'),
        "structs[2].fields[2].type",
        "not known",
    ),
    "a wrong offset": (
        put("offset = 1032", "offset = 1040"),
        "structs[2].fields[3].offset",
        "C places it at 1032",
    ),
    "an offset too far": (
        put("offset = 1032", "offset = 99999999"),
        "structs[2].fields[3].offset",
        "between 0",
    ),
    "no elements": (put("count = 1024", "count = 0"), "structs[3].fields[10].count", "at least 1"),
    "far too many elements": (
        put("count = 1024", "count = 16000000"),
        "structs[3].fields[10].count",
        "ends beyond",
    ),
    "an unknown field key": (
        put("offset = 24 }", "offset = 24, ofset = 1 }"),
        "structs[0].fields[3].ofset",
        "not a key",
    ),
    "a wrong alignof": (put("alignof = 8", "alignof = 4"), "structs[0].alignof", "ask for 8"),
    "a wrong struct sizeof": (put("sizeof = 64", "sizeof = 72"), "structs[0].sizeof", "end at 64"),
    "no status": (put('name = "status"', 'name = "state"'), "structs", "'procs.status'"),
    "a status of 8 bytes": (
        put(STATUS, STATUS.replace("int32_t", "int64_t")),
        "structs",
        "procs.status must have 4 bytes",
    ),
    "a pid that is an array": (
        put(PID, PID.replace("offset", "count = 1, offset")),
        "structs",
        "must not be an array",
    ),
    "limits for 15 devices only": (
        lambda text: put(
            'name = "limit", type = "uint64_t", count = 16',
            'name = "limit", type = "uint64_t", count = 15',
        )(
            put(
                '{ name = "sm_limit"',
                '{ name = "gap", type = "uint64_t", offset = 1720 },\n  { name = "sm_limit"',
            )(text)
        ),
        "structs",
        "limit must have one element a device",
    ),
    "half a version": (
        put('name = "minor_version"', 'name = "micro_version"'),
        "structs",
        "minor_version",
    ),
}
