"""The side of a worker: many connections, one thread, between its steps."""

from __future__ import annotations

import os
import selectors
import socket
from collections import deque
from contextlib import suppress
from pathlib import Path

import msgspec

from assay.errors import HardwareFault, ProtocolError
from assay.serving.frames import Frames, packed
from assay.serving.messages import VERSION, Failed, Hello, Message, Ping, Pong

MOST_WAITING = 32 << 20
"""Bytes on their way to one peer: one that doesn't take them is let go. It connects again and asks anew."""
READ = 1 << 16


class Peer:
    """One connection."""

    def __init__(self, connection: socket.socket, frames: Frames[Message]) -> None:
        self.socket, self.frames = connection, frames
        self.hello: Hello | None = None
        self.gone = False
        self._out: deque[memoryview] = deque()
        self.waiting = 0
        """Bytes on their way."""

    def send(self, message: Message) -> None:
        """Put a message on its way, behind those before it; nothing where the peer is gone."""
        if self.gone:
            return
        data = packed(message)
        self._out.append(memoryview(data))
        self.waiting += len(data)
        self.flush()

    def flush(self) -> None:
        """Write as much as the connection takes."""
        try:
            while self._out:
                sent = self.socket.send(self._out[0])
                self.waiting -= sent
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                else:
                    self._out.popleft()
        except BlockingIOError:
            self.gone = self.gone or self.waiting > MOST_WAITING
        except OSError:
            self.gone = True
        if self.gone:
            self._out.clear()
            self.waiting = 0


class Server:
    """Listens at `path`, which is made anew whatever lay there: of two servers the later one has it."""

    def __init__(self, path: Path, hello: Hello, decoder: msgspec.msgpack.Decoder[Message]) -> None:
        """Raises HardwareFault."""
        self._hello, self._decoder = hello, decoder
        self._selector = selectors.DefaultSelector()
        self.peers: set[Peer] = set()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.setblocking(False)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            new.unlink(missing_ok=True)
            self._listening.bind(str(new))
            new.chmod(0o600)
            self._listening.listen(128)
            new.replace(path)
        except OSError as error:
            self._listening.close()
            raise HardwareFault("a socket can't be made", place=str(path), got=str(error)) from error
        self._selector.register(self._listening, selectors.EVENT_READ)

    def poll(self, timeout: float) -> list[tuple[Peer, Message | None]]:
        """What came in, after at most so many seconds: messages, a peer's Hello first; None for the end of a
        peer.
        """
        found = list[tuple[Peer, Message | None]]()
        for each in self.peers:
            timeout = 0.0 if each.gone else timeout
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if each.waiting else 0)
            self._selector.modify(each.socket, wanted, each)
        for key, events in self._selector.select(timeout):
            if key.data is None:
                self._accept()
                continue
            peer: Peer = key.data
            if events & selectors.EVENT_WRITE:
                peer.flush()
            if events & selectors.EVENT_READ:
                found += [(peer, message) for message in self._read(peer)]
        for peer in [peer for peer in self.peers if peer.gone]:
            self._drop(peer)
            if peer.hello:
                found.append((peer, None))
        return found

    def close(self) -> None:
        """Write what is on its way, for a second at most, and let all go."""
        for peer in list(self.peers):
            with suppress(OSError):
                peer.socket.settimeout(1.0)
            peer.flush()
            self._drop(peer)
        self._selector.close()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listening.accept()
            connection.setblocking(False)
            peer = Peer(connection, Frames(self._decoder))
            self.peers.add(peer)
            self._selector.register(connection, selectors.EVENT_READ, peer)
            peer.send(self._hello)

    def _read(self, peer: Peer) -> list[Message]:
        try:
            data = peer.socket.recv(READ)
            peer.gone = peer.gone or not data
            return [message for message in peer.frames.feed(data) if self._known(peer, message)]
        except BlockingIOError:
            return []
        except ProtocolError as error:
            peer.send(
                Failed("", "ProtocolError", error.rule, want=error.want, got=error.got, hint=error.hint)
            )
            peer.gone = True
        except OSError:
            peer.gone = True
        return []

    def _known(self, peer: Peer, message: Message) -> bool:
        """Whether the worker is to see it: not what isn't said after a Hello of this version, nor Pings."""
        if isinstance(message, Hello):
            if message.version != VERSION:
                want, got = f"version {VERSION}", f"version {message.version}"
                raise ProtocolError("a peer of another version", want=want, got=got)
            peer.hello = message
        elif peer.hello is None:
            raise ProtocolError("a peer that doesn't say who it is", want="Hello", got=type(message).__name__)
        if isinstance(message, Ping):
            peer.send(Pong(message.number))
        return not isinstance(message, Ping)

    def _drop(self, peer: Peer) -> None:
        peer.gone = True
        self.peers.discard(peer)
        with suppress(KeyError, ValueError):
            self._selector.unregister(peer.socket)
        peer.socket.close()
