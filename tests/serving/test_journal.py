"""What a journal keeps, whatever happens to it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from assay.errors import RequestError
from assay.llm.request import Sampling
from assay.serving.journal import Journal, open_journal, whole
from assay.serving.log import Log
from assay.serving.messages import Submit


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts a Redis at a socket in the folder, and again."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("external: no redis-server here")
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        flags = (
            "--port",
            "0",
            "--unixsocket",
            str(tmp_path / "r.sock"),
            "--dir",
            str(tmp_path),
            "--save",
            "",
        )
        running.append(subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL))
        while not (tmp_path / "r.sock").exists():
            time.sleep(0.01)
        return running[-1]

    yield start
    for each in running:
        each.kill()
        each.wait()


@pytest.mark.external
def test_a_redis_keeps_the_same_and_may_be_lost(
    tmp_path: Path, redis: Callable[[], subprocess.Popen[bytes]]
) -> None:
    server, url = redis(), f"unix://{tmp_path / 'r.sock'}"
    journal = open_journal(url, "m", "d", 1, Log("test", tmp_path / "log"))
    journal.admit(submit(), 12.5)
    journal.append([("a", 0, 0, [7, 8]), ("a", 1, 0, [5]), ("a", 0, 2, [9])])
    entry = journal.find("a")
    assert entry and entry.submit == submit() and entry.tokens == [[7, 8, 9], [5]]
    assert [each.submit.id for each in journal.open_requests()] == ["a"]
    journal.mark("a", "done")
    assert journal.open_requests() == []
    other = open_journal(url, "m", "another", 1, Log("test", tmp_path / "log"))
    assert other.find("a") is None
    other.close()
    server.kill()
    server.wait()
    (tmp_path / "r.sock").unlink(missing_ok=True)
    journal.admit(submit("b"), 1.0)
    assert journal.trouble and journal.find("b") is None
    redis()
    end = time.monotonic() + 20
    while journal.trouble:
        assert time.monotonic() < end
        time.sleep(0.05)
    journal.admit(submit("b"), 1.0)
    assert journal.returned() and journal.find("b")
    journal.close()


def opened(folder: Path, digest: str = "d") -> Journal:
    return open_journal(str(folder), "m", digest, 1, Log("test", folder / "log"))


def submit(id: str = "a") -> Submit:
    return Submit(id, [1, 2, 3], Sampling(seed=5, max_tokens=9), meta=b"m")


def test_what_was_asked_and_drawn_is_found_again(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.admit(submit(), 12.5)
    journal.append([("a", 0, 0, [7, 8]), ("a", 1, 0, [5])])
    journal.append([("a", 0, 2, [9])])
    entry = journal.find("a")
    assert entry and entry.submit == submit() and entry.created == 12.5
    assert entry.tokens == [[7, 8, 9], [5]] and entry.state == "open"
    journal.mark("a", "done")
    found = journal.find("a")
    assert found and found.state == "done" and journal.find("b") is None
    journal.close()
    again = opened(tmp_path)
    assert again.open_requests() == [] and again.find("a")
    again.close()


def test_requests_of_another_model_fail(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.admit(submit(), 1.0)
    journal.close()
    other = opened(tmp_path, "another digest")
    assert other.open_requests() == [] and other.find("a") is None
    other.close()


def test_deaths_count_until_it_comes_on(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.admit(submit(), 1.0)
    assert [journal.open_requests()[0].deaths for _ in range(3)] == [1, 2, 3]
    journal.append([("a", 0, 0, [1])])
    entry = journal.find("a")
    assert entry and entry.deaths == 0
    journal.close()


@pytest.mark.parametrize(
    ("pieces", "want"),
    [
        ([(0, 0, [1, 2]), (0, 2, [3])], [[1, 2, 3]]),
        ([(0, 0, [1, 2]), (0, 3, [4])], [[1, 2]]),
        ([(0, 0, [1, 2, 3]), (0, 1, [2])], [[1, 2, 3]]),
        ([(0, 0, [1, 2]), (0, 1, [2, 3, 4])], [[1, 2, 3, 4]]),
        ([(1, 0, [9])], [[], [9]]),
        ([], []),
    ],
)
def test_tokens_end_at_the_first_gap(pieces: list[tuple[int, int, list[int]]], want: list[list[int]]) -> None:
    assert whole(pieces) == want


@pytest.mark.parametrize("content", [b"not a database at all" * 99, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_journal_is_put_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.journal").write_bytes(content)
    journal = opened(tmp_path)
    assert journal.trouble == ""
    journal.admit(submit(), 1.0)
    assert journal.find("a")
    journal.close()
    (bad,) = tmp_path.glob("*.bad")
    assert bad.read_bytes() == content
    assert "journal unreadable" in (tmp_path / "log").read_text()


def test_a_full_disk_is_told_and_what_comes_later_is_kept(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    store = journal._store
    assert store
    connection: sqlite3.Connection = store._connection  # type: ignore[attr-defined]
    connection.execute("PRAGMA max_page_count = 1")
    for number in range(50):
        journal.admit(Submit(f"r{number}", [1] * 2000, Sampling(seed=1)), 1.0)
    assert "full" in journal.trouble
    journal.append([("r1", 0, 0, [1])])
    journal.mark("r1", "done")
    assert journal.find("r1") is None
    end = time.monotonic() + 20
    while journal.trouble:  # it is opened anew, without that limit
        assert time.monotonic() < end
        time.sleep(0.05)
    assert journal.returned() and not journal.returned()
    journal.admit(submit(), 1.0)
    assert journal.find("a")
    journal.close()
    told = (tmp_path / "log").read_text()
    assert "journal lost" in told and "journal back" in told


WRITER = """
import sys, time
from pathlib import Path
from assay.llm.request import Sampling
from assay.serving.journal import open_journal
from assay.serving.log import Log
from assay.serving.messages import Submit
journal = open_journal(sys.argv[1], "m", "d", 1, Log("w", Path(sys.argv[1]) / "log"))
for number in range(10**6):
    journal.admit(Submit(f"r{number}", [number], Sampling(seed=1)), float(number))
    print(number, flush=True)
    for at in range(0, 12, 3):
        journal.append([(f"r{number}", 0, at, [at, at + 1, at + 2])])
"""


def test_what_was_admitted_survives_a_kill(tmp_path: Path) -> None:
    rng = random.Random(1)
    for _ in range(20):
        for path in tmp_path.glob("m.journal*"):
            path.unlink()
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout
        child.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        os.kill(child.pid, signal.SIGKILL)
        said = [0, *map(int, child.stdout.read().split())]
        child.wait()
        child.stdout.close()
        journal = opened(tmp_path)
        entries = journal.open_requests()
        assert [entry.submit.prompt for entry in entries][: max(said) + 1] == [
            [n] for n in range(max(said) + 1)
        ]
        for entry in entries:
            tokens = entry.tokens[0] if entry.tokens else []
            assert tokens == list(range(len(tokens)))
        journal.close()
    assert (
        json.loads((tmp_path / "log").read_text().splitlines()[0] if (tmp_path / "log").read_text() else "{}")
        == {}
    )


FULL = """
import json, resource, sys, time
from pathlib import Path
from assay.llm.request import Sampling
from assay.serving.journal import open_journal
from assay.serving.log import Log
from assay.serving.messages import Submit
folder = Path(sys.argv[1])
journal = open_journal(str(folder), "m", "d", 1, Log("w"))
journal.admit(Submit("early", [1], Sampling(seed=1)), 1.0)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most))
for number in range(200):
    journal.admit(Submit(f"r{number}", [7] * 3000, Sampling(seed=1)), 2.0)
assert journal.trouble
journal.mark("early", "done")
end = time.monotonic() + 4  # it is tried again meanwhile
while time.monotonic() < end:
    assert journal.trouble
    time.sleep(0.01)
assert not journal.returned()
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
end = time.monotonic() + 20
while journal.trouble:
    assert time.monotonic() < end
    time.sleep(0.01)
assert journal.returned()
journal.admit(Submit("late", [1], Sampling(seed=1)), 3.0)
kept = [entry.submit.id for entry in journal.open_requests()]
print(json.dumps([kept[-1], journal.find("early").state]))
journal.close()
"""


def test_a_full_disk_stays_told_until_there_is_room(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["late", "done"]
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert events == ["journal lost", "journal back"]


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff",
        b"",
        b"\x91" * 10**5,
        msgspec.msgpack.encode({"type": "Submit", "id": "a", "prompt": [1], "sampling": {"top_k": -1}}),
        msgspec.msgpack.encode({"type": "Submit", "id": "a", "prompt": [1], "sampling": {}, "later": 1}),
    ],
)
def test_one_request_that_can_not_be_read_hides_no_other(tmp_path: Path, body: bytes) -> None:
    journal = opened(tmp_path)
    for id in "abc":
        journal.admit(submit(id), 1.0)
    journal.append([("c", 0, 0, [1, 2]), ("c", 0, 2, [3])])
    journal.close()
    file = sqlite3.connect(tmp_path / "m.journal")
    with file:
        file.execute("UPDATE requests SET body = ? WHERE id = 'a'", (body,))
        file.execute("UPDATE drawn SET tokens = x'c1' WHERE id = 'c' AND at = 2")
    file.close()
    journal = opened(tmp_path)
    assert journal.find("a") is None
    found = {entry.submit.id: entry.tokens for entry in journal.open_requests()}
    assert found == {"b": [], "c": [[1, 2]]} and not journal.trouble
    journal.close()


def test_another_programs_file_is_put_aside_and_the_journal_is_private(tmp_path: Path) -> None:
    path = tmp_path / "m.journal"
    file = sqlite3.connect(path)
    with file:
        file.execute("CREATE TABLE requests (x)")
        file.execute("PRAGMA user_version = 1")
    file.close()
    path.chmod(0o644)
    journal = opened(tmp_path)
    journal.admit(submit(), 1.0)
    assert journal.find("a") and not journal.trouble
    for each in tmp_path.glob("m.journal*"):
        assert each.stat().st_mode & 0o777 == 0o600
    journal.close()
    assert len(list(tmp_path.glob("*.bad"))) == 1


def test_a_bad_url_is_a_typed_error_and_no_log_has_the_password(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    with pytest.raises(RequestError) as caught:
        open_journal("redis://:s3cret@host:port/0", "m", "d", 1, Log("test", tmp_path / "log"))
    assert "s3cret" not in str(caught.value)
    for url in ("redis://user:s3cret@127.0.0.1:1/0", "unix:///nowhere/r.sock?password=s3cret"):
        start = time.monotonic()
        journal = open_journal(url, "m", "d", 1, Log("test", tmp_path / "log"))
        journal.admit(submit(), 1.0)
        assert time.monotonic() - start < 1.5  # a step waits: the library alone would try for seconds
        assert journal.trouble and "s3cret" not in journal.trouble
        journal.close()
    told = (tmp_path / "log").read_text()
    assert told.count("journal lost") == 2 and "s3cret" not in told
