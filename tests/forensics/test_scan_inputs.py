"""What a scan looks at: directories, patterns, links, and what cannot be looked into."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hami_cache.forensics import scan_inputs
from hami_cache.forensics.scan_inputs import Choice, Place, find, is_url, kind_of


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names(root: Path, *inputs: str, choice: Choice | None = None) -> list[str]:
    places = find([str(root / name) for name in inputs], choice or Choice())
    return [os.path.relpath(place.name, root) for place in places]


def troubles(places: list[Place]) -> list[str]:
    return [place.problem for place in places if place.kind == "trouble"]


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    touch(tmp_path, "odd.bin")
    assert names(tmp_path, "odd.bin") == ["odd.bin"]


def test_only_caches_and_archives_count_in_a_directory(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.cache", "a/x.cache.bak", "a/notes.txt", "a/n.tar", "a/n.tgz", "a/n.zip")
    touch(tmp_path, "a/y.cache.gz", "a/log.gz", "a/n.tar.gz", "a/libvgpu.so")
    wanted = ["n.tar", "n.tar.gz", "n.tgz", "n.zip", "x.cache", "y.cache.gz"]
    assert names(tmp_path, "a") == [f"a/{name}" for name in wanted]


def test_a_directory_named_like_a_cache_is_a_directory(tmp_path: Path) -> None:
    touch(tmp_path, "y.cache/z.cache")
    assert names(tmp_path, ".") == ["y.cache/z.cache"]


def test_another_pattern_for_the_names(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.cache", "a/x.cache.bak")
    assert names(tmp_path, "a", choice=Choice("*.bak")) == ["a/x.cache.bak"]


def test_the_order_is_that_of_the_names(tmp_path: Path) -> None:
    touch(tmp_path, "b/2.cache", "b/1.cache", "a/3.cache", "0.cache", "a/c/4.cache", "a/b/5.cache")
    expected = ["0.cache", "a/3.cache", "a/b/5.cache", "a/c/4.cache", "b/1.cache", "b/2.cache"]
    assert names(tmp_path, ".") == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*/x.cache", ["a/x.cache", "b/x.cache"]),
        ("**/x.cache", ["x.cache", "a/x.cache", "a/b/x.cache", "b/x.cache"]),
        ("**/**/x.cache", ["x.cache", "a/x.cache", "a/b/x.cache", "b/x.cache"]),
        ("[a]/?.cache", ["a/x.cache"]),
        ("a/**", ["a/x.cache", "a/b/x.cache"]),
        ("a*", ["a/x.cache", "a/b/x.cache"]),
        (".h*/*.cache", [".hidden/x.cache"]),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    touch(tmp_path, "x.cache", "a/x.cache", "a/b/x.cache", "b/x.cache")
    if pattern.startswith("."):
        touch(tmp_path, ".hidden/x.cache")
    assert names(tmp_path, pattern) == expected


def test_a_relative_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "x.cache", "a/x.cache")
    monkeypatch.chdir(tmp_path)
    found = [place.name for place in find(["**/*.cache"], Choice())]
    assert found == ["x.cache", "a/x.cache"]


def test_a_name_with_pattern_characters_that_exists_is_no_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "[x].cache", "x.cache")
    assert names(tmp_path, "[x].cache") == ["[x].cache"]


def test_a_pattern_without_a_match_is_reported(tmp_path: Path) -> None:
    (place,) = find([str(tmp_path / "*.cache")], Choice())
    assert (place.kind, place.problem) == ("trouble", "nothing matches this pattern")


def test_a_pattern_does_not_follow_links_with_its_double_star(tmp_path: Path) -> None:
    touch(tmp_path, "in/x.cache", "out/y.cache")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    assert names(tmp_path, "in/**/*.cache") == ["in/x.cache"]


def test_links_to_directories_are_followed_only_when_asked(tmp_path: Path) -> None:
    touch(tmp_path, "in/x.cache", "out/y.cache")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    assert names(tmp_path, "in") == ["in/x.cache"]
    assert names(tmp_path, "in", choice=Choice(follow=True)) == ["in/x.cache", "in/link/y.cache"]


def test_a_link_that_leads_back_is_followed_once(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.cache")
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")
    assert names(tmp_path, "a", choice=Choice(follow=True)) == ["a/x.cache"]


def test_a_linked_root_is_refused_until_asked(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.cache")
    (tmp_path / "root").symlink_to(tmp_path / "a")
    (place,) = find([str(tmp_path / "root")], Choice())
    assert "symbolic link" in place.problem
    assert names(tmp_path, "root", choice=Choice(follow=True)) == ["root/x.cache"]


def test_a_link_named_like_a_cache_gets_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.cache").symlink_to("/etc/hostname")
    assert names(tmp_path, ".") == ["x.cache"]


def test_a_directory_that_is_too_deep_is_reported_and_the_rest_is_found(tmp_path: Path) -> None:
    touch(tmp_path, "x.cache")
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(20):
            os.mkdir("d" * 250)
            os.chdir("d" * 250)
    finally:
        os.chdir(here)
    places = list(find([str(tmp_path)], Choice()))
    assert [place.kind for place in places] == ["file", "trouble"]
    assert "too long" in places[-1].problem


def test_a_crowded_directory_is_cut_off_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, *(f"{index}.cache" for index in range(5)))
    monkeypatch.setattr(scan_inputs, "MAX_ENTRIES", 3)
    places = list(find([str(tmp_path)], Choice()))
    assert [place.kind for place in places] == ["file"] * 3 + ["trouble"]
    assert places[-1].problem == "has more than 3 entries; the rest was not looked at"


def test_nul_in_a_name_is_no_directory() -> None:
    assert [place.kind for place in find(["a\0b"], Choice())] == ["file"]


def test_a_folder_that_vanishes_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "a/x.cache", "b/y.cache")
    places = find([str(tmp_path)], Choice())
    first = next(places)
    os.unlink(tmp_path / "b/y.cache")
    os.rmdir(tmp_path / "b")
    assert first.name.endswith("a/x.cache")
    assert troubles(list(places)) == ["cannot list: No such file or directory"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.cache", "file"),
        ("a.tar", "archive"),
        ("a.tar.gz", "archive"),
        ("s3://b/a.tgz", "archive"),
        ("https://h/a.zip?signature=1", "archive"),
        ("https://h/a?b=a.zip", "file"),
        ("x.cache.gz", "archive"),
    ],
)
def test_kinds(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_what_a_url_is() -> None:
    assert is_url("s3://bucket/x") and is_url("file:///x") and is_url("abfs+x://y")
    assert not is_url("/a/b") and not is_url("a:b") and not is_url("C://")
