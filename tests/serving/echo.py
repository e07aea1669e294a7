"""A worker that sends everything back: `python echo.py SOCKET`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from assay.serving.messages import VERSION, Encode, Hello, Message, Text, ToTokenizer
from assay.serving.server import Server


def main() -> None:
    decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(ToTokenizer)
    server = Server(Path(sys.argv[1]), Hello(VERSION, "tokenizer", "echo", os.getpid()), decoder)
    while True:
        for peer, message in server.poll(1):
            if isinstance(message, Encode):
                peer.send(Text(message.id, message.text))


if __name__ == "__main__":
    main()
