"""Messages as bytes: four of length, big-endian, then msgpack."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from assay.errors import AssayError, ProtocolError
from assay.serving.messages import Message

MOST = 64 << 20
"""Bytes of a frame."""
HEAD = 4
M = TypeVar("M", bound=Message)
_encoder = msgspec.msgpack.Encoder()


def packed(message: Message) -> bytes:
    """A message as a frame. Raises ProtocolError for one that is too long, or that msgpack can't hold."""
    data = bytearray(HEAD)
    try:
        _encoder.encode_into(message, data, HEAD)
    except (ValueError, OverflowError) as error:  # half of a surrogate pair, an integer of more than 64 bits
        raise _wrong("a message that can't be sent", "", str(error)[:200]) from None
    if len(data) - HEAD > MOST:
        raise _wrong("a frame that is too long", f"at most {MOST:,} bytes", f"{len(data) - HEAD:,}")
    data[:HEAD] = (len(data) - HEAD).to_bytes(HEAD, "big")
    return bytes(data)


class Frames(Generic[M]):
    """Bytes, as they arrive, to messages of the types that are expected."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._decoder = decoder
        self._held = bytearray()

    def feed(self, data: bytes) -> list[M]:
        """The messages that these bytes complete. Raises ProtocolError."""
        self._held += data
        found, at = list[M](), 0
        while len(self._held) - at >= HEAD:
            length = int.from_bytes(self._held[at : at + HEAD], "big")
            if length > MOST:
                raise _wrong("a frame that is too long", f"at most {MOST:,} bytes", f"{length:,}")
            end = at + HEAD + length
            if len(self._held) < end:
                break
            with memoryview(self._held) as view:
                found.append(self._decoded(view[at + HEAD : end]))
            at = end
        del self._held[:at]
        return found

    def _decoded(self, data: memoryview) -> M:
        with data:
            try:
                return self._decoder.decode(data)
            except AssayError as error:
                raise _wrong("a message that isn't sound", error.want, error.rule) from error
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise _wrong("a message that isn't sound", "", str(error)[:200]) from None


def _wrong(rule: str, want: str, got: str) -> ProtocolError:
    return ProtocolError(rule, want=want, got=got, hint="processes of one version talk to each other")
