"""Why a figure is not there is part of the answer."""

from __future__ import annotations

from hami_cache.absent import Absent
from hami_cache.slices.figures import Figures, figures
from hami_cache.slices.section import NOT_MEASURED, Device, Partition, Section, Usage

KEY = ("nvidia", "pod-a", "main", "GPU-0")


def test_a_section_that_cannot_answer_says_why() -> None:
    assert figures(None, *KEY) == Absent("no_section")
    assert figures(Section(schema_version=2), *KEY) == Absent("version_skew")
    assert figures(Section(), *KEY) == Absent("device_not_listed")


def test_an_absent_figure_has_its_cards_reason() -> None:
    section = Section(devices=(Device("nvidia", "GPU-0", "exited", "permission"),))
    assert figures(section, *KEY) == Figures(Absent("exited"), Absent("permission"))


def test_one_row_without_a_number_is_no_reason_of_the_card() -> None:
    section = Section(usages=(Usage(*KEY, cores_percent=3),), devices=(Device("nvidia", "GPU-0"),))
    assert figures(section, *KEY) == Figures(NOT_MEASURED, 3)


def test_a_partition_answers_with_its_own_reasons() -> None:
    section = Section(
        devices=(Device("nvidia", "GPU-0", "exited", "exited"),),
        partitions=(
            Partition(*KEY, id="MIG-0", memory_total_mib=9856, memory_used_mib=0,
                      cores_reason="unsupported"),
        ),
    )  # fmt: skip
    assert figures(section, *KEY) == Figures(0, Absent("unsupported"), "MIG-0", 9856)
