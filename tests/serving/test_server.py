"""The workers' end of connections, with sockets as peers."""

from __future__ import annotations

import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pytest

from assay.errors import HardwareFault
from assay.serving import server as under_test
from assay.serving.frames import Frames, packed
from assay.serving.messages import VERSION, Cancel, FromEngine, Hello, Message, Ping, Pong, Text, ToEngine
from assay.serving.server import Peer, Server

DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(ToEngine)
HELLO = Hello(VERSION, "engine", "test", 1, {"digest": "d"})
Join = Callable[..., socket.socket]
GATEWAY = Hello(VERSION, "gateway", "g", 2)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "s", HELLO, DECODER)
    yield made
    made.close()


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[Callable[..., socket.socket]]:
    """Connects a client that says these messages."""
    with ExitStack() as open_ones:

        def join(*first: Message) -> socket.socket:
            client = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            client.settimeout(10)
            client.connect(str(tmp_path / "s"))
            client.sendall(b"".join(map(packed, first)))
            return client

        yield join


def polled(server: Server, count: int) -> list[tuple[Peer, Message | None]]:
    """What comes until `count` things have come."""
    found: list[tuple[Peer, Message | None]] = []
    until = time.monotonic() + 10
    while len(found) < count and time.monotonic() < until:
        found += server.poll(0.05)
    return found


def told(client: socket.socket) -> list[Message]:
    """All until the connection ends."""
    frames, found = Frames(msgspec.msgpack.Decoder(FromEngine)), list[Message]()
    while data := client.recv(1 << 16):
        found += frames.feed(data)
    return found


def heard(client: socket.socket, server: Server, count: int) -> list[Message]:
    frames, found = Frames(msgspec.msgpack.Decoder(FromEngine)), list[Message]()
    while len(found) < count:
        server.poll(0)
        found += frames.feed(client.recv(1 << 16))
    return found


def test_greetings_messages_pings_and_the_end(server: Server, joined: Join) -> None:
    client = joined(GATEWAY, Cancel("a"), Ping(5), Cancel("b"))
    found = polled(server, 3)
    assert [message for _, message in found] == [GATEWAY, Cancel("a"), Cancel("b")]
    assert found[0][0].hello == GATEWAY and server.peers == {found[0][0]}
    assert heard(client, server, 2) == [HELLO, Pong(5)]
    client.close()
    assert polled(server, 1) == [(found[0][0], None)]
    assert server.peers == set() and server.poll(0) == []
    found[0][0].send(Pong(1))
    assert not found[0][0].waiting


@pytest.mark.parametrize(
    ("first", "got"),
    [
        (Hello(VERSION + 1, "gateway", "g", 2), f"version {VERSION + 1}"),
        (Cancel("a"), "Cancel"),
        (Text("a", ""), "Inv"),
    ],
)
def test_who_can_not_be_understood_is_told(server: Server, joined: Join, first: Message, got: str) -> None:
    client = joined(first)
    assert [server.poll(0.05) for _ in range(4)] == [[]] * 4
    hello, failed = told(client)
    assert hello == HELLO and getattr(failed, "got", "").startswith(got)
    assert server.peers == set()


def test_damage_later_ends_the_connection(server: Server, joined: Join) -> None:
    client = joined(GATEWAY, Cancel("a"))
    assert len(polled(server, 2)) == 2
    client.sendall(b"\xff" * 9)
    assert [message for _, message in polled(server, 1)] == [None]
    assert [type(message).__name__ for message in told(client)] == ["Hello", "Failed"]


def test_a_peer_that_does_not_read_is_dropped(
    server: Server, joined: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "MOST_WAITING", 1 << 20)
    joined(GATEWAY, Cancel("slow"))
    quick = joined(GATEWAY, Cancel("quick"))
    quick.setblocking(False)
    peers = {getattr(message, "id", ""): peer for peer, message in polled(server, 4)}
    for _ in range(40):
        for peer in peers.values():
            peer.send(Text("a", "x" * 100_000))
        while peers["quick"].waiting:
            with suppress(BlockingIOError):
                quick.recv(1 << 20)
            peers["quick"].flush()
    start = time.monotonic()
    assert server.poll(5) == [(peers["slow"], None)] and time.monotonic() - start < 1
    assert server.peers == {peers["quick"]} and not peers["slow"].waiting


def test_much_is_sent_in_order_over_many_polls(server: Server, joined: Join) -> None:
    client = joined(GATEWAY, Cancel("a"))
    peer = polled(server, 2)[0][0]
    for number in range(200):
        peer.send(Text(str(number), "x" * 50_000))
    frames, found = Frames(msgspec.msgpack.Decoder(Hello | Text)), list[Message]()
    while len(found) < 201:
        server.poll(0)
        found += frames.feed(client.recv(1 << 16))
    assert [getattr(message, "id", "") for message in found[1:]] == list(map(str, range(200)))


def test_the_socket_is_private_and_the_next_process_takes_it_over(tmp_path: Path, joined: Join) -> None:
    first = Server(tmp_path / "s", HELLO, DECODER)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    second = Server(tmp_path / "s", Hello(VERSION, "engine", "next", 3), DECODER)
    client = joined(GATEWAY, Ping(1))
    second.poll(1)
    second.poll(0.01)
    first.close()
    frames = Frames(msgspec.msgpack.Decoder(FromEngine))
    assert frames.feed(client.recv(1 << 16))[0] == Hello(VERSION, "engine", "next", 3)
    second.close()
    (tmp_path / "s").unlink()
    (tmp_path / "s").write_text("what a dead process left")
    third = Server(tmp_path / "s", HELLO, DECODER)
    assert list(tmp_path.iterdir()) == [tmp_path / "s"] and (tmp_path / "s").is_socket()
    third.close()


def test_a_path_that_no_socket_can_have_is_a_typed_error(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere" / "s", tmp_path / ("long" * 40)):
        with pytest.raises(HardwareFault, match="can't be made"):
            Server(path, HELLO, DECODER)
