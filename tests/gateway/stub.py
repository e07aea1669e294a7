"""Workers that do what a prompt says: `python -m gateway.stub engine SOCKET` (or tokenizer).

A token is a code point. The last message of a conversation is `options|text`, and the answer is `text`.
Options, as `name=value` with commas between them:

    each=N      tokens a piece (all at once)      tick=S      seconds between pieces
    refuse=KIND it is refused                     fail=N      it fails after so many tokens
    silent=1    nothing comes of it               stall=S     the tokeniser takes so long (stall@t0: one only)
    wide=N      each token's text is so often its character
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from pathlib import Path

import msgspec

from assay.serving import messages as m
from assay.serving.server import Peer, Server

About = dict[str, str | int | float | bool]


def options(text: str) -> tuple[dict[str, str], str]:
    """What a prompt says is to be done, and the answer."""
    head, bar, tail = text.partition("|")
    return (dict(each.split("=") for each in head.split(",") if each), tail) if bar else ({}, text)


class Asked:
    """A request of the engine, and how far it is."""

    def __init__(self, submit: m.Submit) -> None:
        self.submit, self.at, self.due = submit, 0, 0.0
        self.options, self.text = options("".join(map(chr, submit.prompt)))
        self.most = min(len(self.text), submit.sampling.max_tokens or 1 << 20)
        self.cancelled = False

    def piece(self, key: str, choice: int, begin: int, end: int) -> m.Piece:
        """Of one answer: the tokens from `begin` to `end`."""
        tokens = [ord(each) for each in self.text[begin:end]]
        whole = "stop" if self.most == len(self.text) else "length"
        reason = "cancelled" if self.cancelled else whole if end == self.most else ""
        wide = int(self.options.get("wide", 1))
        logprobs = [[(chr(each).encode(), each, -0.5), (b"x", 120, -1.0)] for each in tokens]
        return m.Piece(key, choice, end, tokens, "".join(chr(each) * wide for each in tokens), reason, 1,
                       logprobs if self.submit.logprobs else [])  # fmt: skip


class Engine:
    """Stands for an engine. Who listens: by (peer, key), what of which request, and the tokens told."""

    def __init__(self) -> None:
        self.about: About = {"kind": "text", "context": 4096, "digest": "d", "numerics": 1}
        self.asked: dict[str, Asked] = {}
        self.heard: dict[tuple[Peer, str], tuple[Asked, list[int], list[int]]] = {}
        self.steps = 0

    def handle(self, peer: Peer, message: m.Message) -> None:
        """Do what is asked."""
        match message:
            case m.Submit():
                asked = self.asked.setdefault(message.id, Asked(message))
                if "silent" in asked.options:
                    return
                if "refuse" in asked.options:
                    del self.asked[message.id]
                    peer.send(m.Failed(message.key, asked.options["refuse"], "refused", retry=2.0))
                    return
                drawn = [*map(len, message.drawn), *[0] * message.sampling.n][: message.sampling.n]
                asked.at = max(asked.at, *drawn)
                peer.send(m.Started(message.key))
                self.heard[peer, message.key] = asked, drawn, []
            case m.Attach() if message.id in self.asked:
                asked = self.asked[message.id]
                n = asked.submit.sampling.n
                at = [*message.at, *[0] * n][:n]
                done = asked.cancelled or asked.at == asked.most
                peer.send(m.Known(message.key, asked.submit, 1.0, done))
                self.heard[peer, message.key] = asked, at, [*message.mark, *[0] * n][:n]
                if not message.follow:
                    self.tell()
                    self.heard.pop((peer, message.key), None)
                    peer.send(m.Started(message.key))
            case m.Attach():
                peer.send(m.Failed(message.key, "unknown", "no such request", place="id"))
            case m.Leave():
                found = self.heard.pop((peer, message.key), None)
                if (
                    found
                    and not found[0].submit.background
                    and not any(each[0] is found[0] for each in self.heard.values())
                ):
                    found[0].at = 0  # parked: who comes again has it computed again
                    found[0].due = time.monotonic()
            case m.Cancel() if message.id in self.asked:
                self.asked[message.id].cancelled = True
            case m.Embed():
                if message.texts == [[ord("!")]]:
                    peer.send(m.Failed(message.key, "HardwareFault", "broken"))
                    return
                values = [float(each) for text in message.texts for each in (len(text), text[0])]
                data = struct.pack(f"<{len(values)}f", *values)
                peer.send(m.Vectors(message.key, data, 2, sum(map(len, message.texts))))

    def step(self) -> None:
        """Go on with all that is due."""
        now = time.monotonic()
        self.steps += bool(self.heard)
        for asked in {id(each[0]): each[0] for each in self.heard.values()}.values():
            if asked.due <= now and asked.at < asked.most:
                asked.due = now + float(asked.options.get("tick", 0))
                asked.at = min(asked.most, asked.at + int(asked.options.get("each", asked.most)))
        self.tell()

    def tell(self) -> None:
        """Send what is new."""
        for (peer, key), (asked, heard, marks) in list(self.heard.items()):
            found = []
            for choice in range(len(heard)):
                if marks and heard[choice] < marks[choice] < asked.at:
                    found.append(asked.piece(key, choice, heard[choice], marks[choice]))
                    heard[choice] = marks[choice]
                if heard[choice] < asked.at or asked.at == asked.most or asked.cancelled:
                    found.append(asked.piece(key, choice, heard[choice], asked.at))
                    heard[choice] = asked.at
            if found:
                peer.send(m.Pieces(found))
            if asked.at >= int(asked.options.get("fail", 1 << 30)):
                peer.send(m.Failed(key, "HardwareFault", "broken"))
                self.heard.pop((peer, key))
            elif asked.at == asked.most or asked.cancelled:
                self.heard.pop((peer, key))


class Tokenizer:
    """Stands for a tokeniser worker."""

    steps = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.about: About = {}
        self.heard: dict[str, int] = {}

    def handle(self, peer: Peer, message: m.Message) -> None:
        """Answer."""
        match message:
            case m.Render() | m.Encode():
                text = message.text if isinstance(message, m.Encode) else ""
                if isinstance(message, m.Render):
                    text = msgspec.json.decode(message.messages)[-1]["content"]
                given, _ = options(text)
                time.sleep(float(given.get("stall", given.get(f"stall@{self.name}", 0))))
                peer.send(m.Tokens(message.id, [*map(ord, text)]))
            case m.Decode():
                peer.send(m.Text(message.id, "".join(map(chr, message.tokens))))
            case m.Grammar():
                if '"not"' in message.text:
                    peer.send(m.Failed(message.id, "RequestError", "unsupported", f"{message.kind}.not"))
                else:
                    peer.send(m.Text(message.id, ""))

    def step(self) -> None:
        """There are none."""


def main() -> None:
    """Serve for ever."""
    kind, path = sys.argv[1], Path(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Engine() if kind == "engine" else Tokenizer(path.stem)
    types = m.ToEngine if kind == "engine" else m.ToTokenizer
    hello = m.Hello(m.VERSION, kind, path.stem, os.getpid(), worker.about)
    server, beaten = Server(path, hello, msgspec.msgpack.Decoder(types)), 0.0
    while True:
        for peer, message in server.poll(0.002 if worker.heard else 0.1):
            if message is not None:
                worker.handle(peer, message)
            elif isinstance(worker, Engine):
                worker.heard = {ear: each for ear, each in worker.heard.items() if ear[0] is not peer}
        worker.step()
        if time.monotonic() - beaten > 0.2:
            beaten = time.monotonic()
            for peer in server.peers:
                peer.send(m.Beat(worker.steps, 0, len(worker.heard)))


if __name__ == "__main__":
    main()
