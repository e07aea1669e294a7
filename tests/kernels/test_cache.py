"""The folder of compiled kernels: shared by processes that may die, never stale, the user's alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import assay
from assay.errors import HardwareFault, KernelBuildError
from assay.kernels import build, cache, target

PACKAGE = Path(assay.__file__).parent
GATHER = """
import numpy as np
from assay.kernels import cache
from assay.kernels.call import call
cache.addresses(["team.dismiss"])
x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros((3, 3), np.float32)
for thread in range(2):
    call("move.gather_rows", x, np.array([2, 0, 3], np.int32), y, 4, 3, 3, tid=thread, nthreads=2)
print(y.ravel().tolist())
"""
ROWS = [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 9.0, 10.0, 11.0]
BUILD = """
from assay.kernels import cache
cache.addresses(["move.gather_rows", "norm.rms_norm"])
"""


def environment(folder: Path, source: Path = PACKAGE.parent) -> Mapping[str, str]:
    path = os.pathsep.join([str(source), *(entry for entry in sys.path if entry)])
    return {**os.environ, "ASSAY_CACHE": str(folder), "PYTHONPATH": path}


def start(program: str, folder: Path, source: Path = PACKAGE.parent) -> subprocess.Popen[str]:
    """A Python process in a session of its own, so that its children can be killed with it."""
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment(folder, source), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def gathered(folder: Path, source: Path = PACKAGE.parent) -> list[float]:
    child = start(GATHER, folder, source)
    out, error = child.communicate()
    assert child.returncode == 0, error
    return [float(number) for number in out.strip("[]\n").split(",")]


def objects_in(folder: Path) -> dict[str, int]:
    """What each object file is on the disk: written anew, it is another."""
    return {path.name: path.stat().st_ino for path in folder.glob("kernels/*/*.o")}


def kernels_in(folder: Path) -> list[str]:
    """The names of the kernels in the folder, one for each object."""
    return sorted(name.rpartition("-")[0] for name in objects_in(folder))


def test_an_edited_helper_runs_and_what_does_not_use_it_is_not_compiled_again(tmp_path: Path) -> None:
    """The helper is in another file than the kernel: what Numba's own cache would miss."""
    source, folder = tmp_path / "src", tmp_path / "cache"
    shutil.copytree(PACKAGE, source / "assay", ignore=shutil.ignore_patterns("__pycache__"))
    assert gathered(folder, source) == ROWS
    first = objects_in(folder)
    assert gathered(folder, source) == ROWS
    assert objects_in(folder) == first
    helper = source / "assay" / "kernels" / "share.py"
    text = helper.read_text()
    assert text.count("return rows * tid // nthreads") == 1
    helper.write_text(text.replace("return rows * tid // nthreads", "return rows * tid // nthreads // 2"))
    assert gathered(folder, source) == [*ROWS[:3], *6 * [0.0]]
    assert first.items() < objects_in(folder).items(), "the old code stays for whoever still wants it"
    assert kernels_in(folder) == ["move.gather_rows", "move.gather_rows", "team.dismiss"]
    helper.write_text(text)
    assert gathered(folder, source) == ROWS
    assert len(objects_in(folder)) == 3, "the old code is found again"


def test_damaged_objects_are_compiled_again(tmp_path: Path) -> None:
    """Code that isn't whole never runs."""
    folder = tmp_path / "cache"
    assert gathered(folder) == ROWS
    for file in folder.glob("kernels/*/*.o"):
        content = file.read_bytes()
        file.write_bytes(bytes(byte ^ (index % 97 == 0) for index, byte in enumerate(content)))
    assert gathered(folder) == ROWS
    assert all(build.unsealed(file.read_bytes()) for file in folder.glob("kernels/*/*.o"))


def test_what_is_not_whole_has_no_code() -> None:
    """Empty, cut short anywhere, longer, another's digest, one bit flipped."""
    whole = build.sealed(b"code" * 9)
    assert build.unsealed(whole) == b"code" * 9
    for cut in range(len(whole)):
        assert build.unsealed(whole[:cut]) is None
        assert build.unsealed(whole[:cut] + bytes([whole[cut] ^ 1]) + whole[cut + 1 :]) is None
    assert build.unsealed(whole + b"x") is None and build.unsealed(b"x" + whole) is None


def test_the_compiler_says_much_and_runs_no_file_of_this_folder(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise SystemExit('the wrong numba')")
    program = (
        "import os, sys\nsys.path[:] = [entry for entry in sys.path if entry]\n"
        f"os.chdir({str(tmp_path)!r})\nos.environ['PYTHONVERBOSE'] = '1'\n{GATHER}"
    )
    out, error = start(program, tmp_path / "cache").communicate(timeout=300)
    assert out.strip() == str(ROWS), error[-2000:]


def test_a_users_helper_is_compiled_into_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's file stays as it is; another in its package changes."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "kernels.py").write_text(
        "from assay.simd.memory import get_i64, put_i64\nfrom users import helper\n"
        "def store(args, tid, nthreads):\n    put_i64(get_i64(args + 8), helper.NUMBER)\n"
    )
    for number in (3, 4):
        (tmp_path / "users" / "helper.py").write_text(f"NUMBER = {number}\n")
        program = (
            "import numpy as np\nfrom assay.kernels.call import call\nx = np.zeros(1, np.int64)\n"
            "call('users.kernels:store', x)\nprint(x[0])"
        )
        out, error = start(program, tmp_path).communicate()
        assert out == f"{number}\n", error


def test_two_processes_fill_one_cache_and_one_is_killed(tmp_path: Path) -> None:
    victim, survivor = start(BUILD, tmp_path), start(BUILD, tmp_path)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("kernels/*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(1.0)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.communicate()
    _, error = survivor.communicate(timeout=300)
    assert survivor.returncode == 0, error
    assert gathered(tmp_path) == ROWS
    assert kernels_in(tmp_path) == ["move.gather_rows", "norm.rms_norm", "team.dismiss"]


def test_a_half_written_file_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed compiler leaves has another name than the kernel's."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    place = cache.folder(target.current())
    assert {path.parent for path in cache.paths(["move.gather_rows"], target.current()).values()} == {place}
    (place / "move.gather_rows.oabcd.part").write_bytes(b"\x7fELF half")
    assert gathered(tmp_path) == ROWS


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_folder_that_others_may_write_is_refused(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    place = cache.folder(target.current())
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(mode)
    with pytest.raises(HardwareFault) as refused:
        cache.addresses(["move.gather_rows"])
    assert refused.value.place == str(place)
    assert refused.value.hint.startswith(f"chmod 700 {place}")
    assert f"mode {mode:o}" in refused.value.got
    assert not list(place.iterdir())


def test_what_nobody_used_for_long_is_deleted_when_others_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    here = cache.folder(target.current())
    old, new = here.with_name("0" * 24), here.with_name("1" * 24)
    users = here.with_name("mine")
    for folder in (old, new, users):
        folder.mkdir()
    files = {
        folder / f"a{suffix}"
        for folder in (here, old, new, users)
        for suffix in (".o", ".s", ".part", ".txt")
    }
    used, compiled = cache.paths(["move.gather_rows", "team.dismiss"], target.current()).values()
    for file in (*files, used):
        file.write_bytes(b"")
        age = cache.UNUSED - 60 if file.parent == new else cache.UNUSED + 60
        os.utime(file, (time.time() - age, time.time() - age))
    cache.objects(["move.gather_rows", "team.dismiss"], target.current())
    left = {file for file in files if file.parent in (new, users) or file.suffix == ".txt"}
    assert set(tmp_path.glob("kernels/*/*")) == left | {used, compiled}
    for file in left:
        file.unlink()
    cache.objects(["move.gather_rows"], target.current())
    assert used.exists(), "a start without compiling deletes nothing"


def test_an_object_that_another_process_deletes_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the moment when it was seen and that when it is read."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    objects, deleted = cache.objects, []

    def overtaken(*arguments: object) -> Mapping[str, Path]:
        files = objects(*arguments)  # type: ignore[arg-type]
        if not deleted:
            deleted.extend(files.values())
            for file in deleted:
                file.unlink()
        return files

    monkeypatch.setattr(cache, "objects", overtaken)
    assert cache.addresses(["team.dismiss"])["team.dismiss"]
    assert deleted and all(file.exists() for file in deleted)


@pytest.mark.parametrize("spoil", ["a folder", "refused", "damaged, and can't be deleted"])
def test_an_object_that_cannot_be_read_is_named(
    spoil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    (file,) = cache.paths(["norm.rms_norm"], target.current()).values()

    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    if spoil == "a folder":
        file.mkdir()
    else:
        file.write_bytes(b"")
        monkeypatch.setattr(Path, "read_bytes" if spoil == "refused" else "unlink", refused)
        monkeypatch.setattr(cache, "paths", lambda names, _: dict.fromkeys(names, file))
    monkeypatch.setattr(cache, "_loaded", {})
    with pytest.raises(HardwareFault) as fault:
        cache.addresses(["norm.rms_norm"])
    assert fault.value.place == str(file) and fault.value.hint.startswith("delete it")
    assert fault.value.got == ("Is a directory" if spoil == "a folder" else "Permission denied")


def test_a_folder_that_can_only_be_read_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image that was filled when it was built; there a file's time can't be set."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    (file,) = cache.paths(["team.dismiss"], target.current()).values()
    file.write_bytes(b"")

    def refused(path: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refused)
    assert cache.objects(["team.dismiss"], target.current()) == {"team.dismiss": file}
    assert file.read_bytes() == b"", "it was not compiled again"


def test_sources_that_change_under_the_compiler_leave_nothing(tmp_path: Path) -> None:
    """An object whose name is of other sources would be stale for ever."""
    file = tmp_path / f"team.dismiss-{24 * '0'}.o"
    with pytest.raises(KernelBuildError) as failed:
        build.write_object("team.dismiss", file, b"")
    assert failed.value.place == "team.dismiss" and failed.value.hint == "try again"
    assert not list(tmp_path.iterdir())


def test_levels_and_sources_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    folders = {cache.folder(each) for each in (target.host(), *target.LEVELS.values())}
    assert len(folders) == 1 + len(target.LEVELS)


def test_a_kernel_that_does_not_compile_is_an_error_with_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_kernels.py").write_text("def bad(args, tid, nthreads):\n    return undefined_name\n")
    with pytest.raises(KernelBuildError) as failed:
        cache.addresses(["users_kernels:bad"])
    assert failed.value.place == "users_kernels:bad" and "undefined_name" in failed.value.got


def test_a_level_that_this_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CPU", "avx512")
    monkeypatch.setattr(target, "host", lambda: target.Target("host", "old", "+sse2,+avx"))
    with pytest.raises(HardwareFault) as refused:
        target.current()
    assert "avx512f" in refused.value.got and refused.value.place == "ASSAY_CPU"
