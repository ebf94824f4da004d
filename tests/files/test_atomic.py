"""Files written atomically: whole under their name, or as they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.files.atomic import draft_path, flush, make_folder, publish, write_atomically, write_draft


def test_a_file_is_replaced_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "record"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["record"]


def test_only_its_user_can_read_a_private_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "private", b"")
    write_atomically(tmp_path / "shared", b"", is_private=False)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "shared").stat().st_mode & 0o044 == 0o044


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record"
    write_atomically(path, b"one")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["record"]


def test_a_draft_is_published_later(tmp_path: Path) -> None:
    path = tmp_path / "record"
    write_draft(path, b"one", is_private=False)
    assert not path.exists()
    publish(draft_path(path), path, is_flushed=True)
    assert path.read_bytes() == b"one"


def test_a_folder_is_flushed_with_all_that_is_in_it_before_it_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []

    def noted(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    monkeypatch.setattr(os, "fsync", noted)
    make_folder(tmp_path / "draft" / "inner")
    (tmp_path / "draft" / "inner" / "file").write_bytes(b"one")
    flushed.clear()
    publish(tmp_path / "draft", tmp_path / "folder")
    assert flushed == ["inner", "file", "draft", tmp_path.name]
    assert (tmp_path / "folder" / "inner" / "file").read_bytes() == b"one"
    flush(tmp_path / "folder")
