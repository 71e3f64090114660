"""Files are whole or absent, and trouble is one sentence."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fscil.core import storage
from fscil.core.errors import InputError
from fscil.core.storage import (
    SEAL,
    claim_folder,
    claiming,
    is_claimed,
    read_json,
    write_atomic,
    write_json,
    write_sealed,
    write_text,
)


def test_text_and_json_come_back(tmp_path: Path) -> None:
    write_json(tmp_path / "deep" / "a.json", {"a": [1, None, "é"]})
    assert read_json(tmp_path / "deep" / "a.json") == {"a": [1, None, "é"]}


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(target: Path) -> None:
        target.write_text("half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        write_atomic(path, fail)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "No permission"), (errno.EIO, "try again")]
)
def test_trouble_with_the_disk_is_one_sentence(tmp_path: Path, code: int, words: str) -> None:
    def fail(target: Path) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(InputError, match=words):
        write_atomic(tmp_path / "a.txt", fail)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_for_real() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    def fill(target: Path) -> None:
        with open("/dev/full", "wb", buffering=0) as file:
            file.write(b"x")

    with pytest.raises(InputError, match="disk is full"):
        write_atomic(Path("/tmp/fscil-never-written.txt"), fill)
    assert not Path("/tmp/fscil-never-written.txt").exists()


def test_files_get_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_the_umask_of_the_process_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to all threads: one that creates a file meanwhile would make it writable for everybody."""
    changes: list[int] = []
    monkeypatch.setattr(storage.os, "umask", lambda mask: changes.append(mask) or 0o022)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: write_text(tmp_path / f"{number % 5}.txt", "x" * number), range(100)))
    assert changes == []
    assert sorted(os.listdir(tmp_path)) == [f"{number}.txt" for number in range(5)]
    assert len({stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}) == 1


def test_an_occupied_temporary_name_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["taken", "taken", "free"])
    monkeypatch.setattr(storage.secrets, "token_hex", lambda size: next(names))
    (tmp_path / ".a-fscil-taken.txt").write_text("another's")
    write_text(tmp_path / "a.txt", "mine")
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert (tmp_path / ".a-fscil-taken.txt").read_text() == "another's"


def test_nan_is_not_written_as_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", float("nan"))
    assert os.listdir(tmp_path) == []


def test_folders_are_not_overwritten_unasked(tmp_path: Path) -> None:
    claim_folder(tmp_path / "new", force=False)
    claim_folder(tmp_path / "new", force=False)  # empty is fine
    (tmp_path / "new" / "x").write_text("mine")
    with pytest.raises(InputError, match=r"already exists.*--resume.*--force"):
        claim_folder(tmp_path / "new", force=False)
    claim_folder(tmp_path / "new", force=False, resume=True)
    claim_folder(tmp_path / "new", force=True)
    with pytest.raises(InputError, match="is a file"):
        claim_folder(tmp_path / "new" / "x", force=True)


def test_a_folder_that_was_made_for_nothing_is_gone(tmp_path: Path) -> None:
    def refused(path: Path) -> None:
        with pytest.raises(InputError, match="no"), claiming(path, force=False, resume=True):
            raise InputError("no")

    refused(tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []
    with claiming(tmp_path / "a" / "b", force=False):
        assert is_claimed(tmp_path / "a" / "b")
    assert is_claimed(tmp_path / "a" / "b")  # for as long as the process lives
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine").touch()
    refused(tmp_path / "c")
    refused(tmp_path / "c" / "d")
    assert (tmp_path / "c" / "mine").exists()
    assert not (tmp_path / "c" / "d").exists()


def test_a_lock_whose_file_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another, refused, may delete the file between its opening and its locking here."""
    path, true_lock = tmp_path / ".lock", storage.lock

    def lock(file: object) -> bool:
        monkeypatch.setattr(storage, "lock", true_lock)
        path.unlink()
        return true_lock(file)  # type: ignore[arg-type]

    monkeypatch.setattr(storage, "lock", lock)
    assert storage.hold(path)
    assert path.stat().st_ino == os.fstat(storage._held[path.resolve()].fileno()).st_ino


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.os, "access", lambda path, mode: False)  # the tests may run as root
    with pytest.raises(InputError, match="not writable"):
        claim_folder(tmp_path / "locked", force=False)


def test_bad_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(InputError, match="does not exist"):
        read_json(tmp_path / "b.json")


CLAIM = """
import sys, time
from pathlib import Path
from fscil.core.errors import InputError
from fscil.core.storage import claim_folder, write_json
print("ready", flush=True)
sys.stdin.readline()
try:
    claim_folder(Path(sys.argv[1]), force=sys.argv[2] == "force", resume=sys.argv[2] == "resume")
except InputError as error:
    print("refused", error, flush=True)
else:
    write_json(Path(sys.argv[1]) / "mine.json", 1)
    print("accepted", flush=True)
sys.stdin.readline()
"""


def claimant(folder: Path, how: str) -> subprocess.Popen[str]:
    """A process that claims a folder when it is told to, and lives on until it is told again."""
    command = [sys.executable, "-c", CLAIM, str(folder), how]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go_on(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


@pytest.mark.parametrize("how", ["new", "resume", "force"])
def test_of_two_processes_that_want_a_folder_at_once_one_gets_it(tmp_path: Path, how: str) -> None:
    for number in range(8):
        two = [claimant(tmp_path / str(number), how) for _ in range(2)]
        go_on(two)
        said = sorted(process.stdout.readline() for process in two if process.stdout)
        go_on(two)
        assert [process.wait(timeout=600) for process in two] == [0, 0]
        assert said[0] == "accepted\n"
        assert re.fullmatch(
            r"refused (Another process is writing to|.* already exists and is not empty).*\.\n", said[1]
        )


def test_a_claim_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    first, second, third = (claimant(tmp_path, "resume") for _ in range(3))
    assert first.stdout
    assert second.stdout
    assert third.stdout
    go_on([first])
    assert first.stdout.readline() == "accepted\n"
    go_on([second])
    assert "Another process is writing to" in second.stdout.readline()
    first.kill()
    first.wait(timeout=600)
    go_on([third])
    assert third.stdout.readline() == "accepted\n"
    go_on([second, third])
    assert [process.wait(timeout=600) for process in (second, third)] == [0, 0]


def test_a_sealed_file_is_read_as_it_was_written_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    document = {"b": [1.5, 0.25, None], "a": {"x": (1, 2)}, "Ü": "\u2028", "number": {2: 1, 10: 2}}
    write_sealed(path, document)
    assert read_json(path) == json.loads(json.dumps(document))
    whole, same = path.read_text(), 0
    for at in range(len(whole)):
        path.write_text(whole[:at] + ("7" if whole[at] != "7" else "8") + whole[at + 1 :])
        try:
            found = read_json(path)
        except InputError:
            continue
        same += 1
        found = {key: value for key, value in found.items() if key in document}
        assert found == json.loads(json.dumps(document))  # what was hit is the seal's own name
    assert same == len(SEAL)
    path.write_text(json.dumps({**json.loads(whole), "b": [2.5]}))
    with pytest.raises(InputError, match="not as it was written"):
        read_json(path)
    edited = json.loads(whole)
    del edited[SEAL]
    path.write_text(json.dumps({**edited, "b": 3}))
    assert read_json(path)["b"] == 3  # an edit that was meant


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b"9" * 5000, b"NaN", b'{"a": Infinity}', b"\x00"]
)
def test_what_is_no_json_is_refused_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(InputError, match="not valid JSON"):
        read_json(tmp_path / "x.json")


def test_what_killed_writers_left_is_cleared_when_the_folder_is_claimed_again(tmp_path: Path) -> None:
    (tmp_path / "prototypes").mkdir()
    left, fresh, *mine = (
        tmp_path / "prototypes" / name
        for name in (
            ".r-fscil-0a1b2c3d.json",
            ".r-fscil-00000000.json",
            ".mine",
            ".bashrc-20240131",
            ".r-20240131.json",
        )
    )
    for path in (left, fresh, *mine):
        path.write_text("{}")
    for path in (left, *mine):
        os.utime(path, (0, 0))
    claim_folder(tmp_path, force=False, resume=True)
    assert not left.exists()
    assert fresh.exists()  # somebody may be writing it
    assert all(path.exists() for path in mine)  # people put dates behind names


def test_temporary_names_are_those_that_are_cleared(tmp_path: Path) -> None:
    for name in ("result.json", "state.safetensors", "report", "a.b-c.html"):
        write_atomic(tmp_path / name, lambda path: storage._TEMPORARY.fullmatch(path.name) or pytest.fail(path.name))
