"""Real inputs, made here: pictures of text, sounds like speech, files of many kinds."""

from __future__ import annotations

import io
import json
import struct
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

TEXT_SIZE = 32
VOWELS = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))
"""The first three formants, in Hz, of a, i, u, e and o as a man says them (Peterson and Barney, 1952)."""


def page(lines: Sequence[str], shape: tuple[int, int]) -> NDArray[np.uint8]:
    """uint8[height, width, 3]: dark lines of text on light paper, one below the other."""
    picture = Image.new("RGB", shape[::-1], "white")
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(TEXT_SIZE)
    for number, line in enumerate(lines):
        draw.text((24, 24 + number * 2 * TEXT_SIZE), line, fill=(16, 16, 32), font=font)
    return np.asarray(picture)


def line(text: str, size: int = TEXT_SIZE) -> NDArray[np.uint8]:
    """uint8[height, width, 3]: one line, cut close around it."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = (round(each) for each in font.getbbox(text))
    picture = Image.new("RGB", (right - left + size // 2, bottom - top + size // 2), "white")
    ImageDraw.Draw(picture).text((size // 4 - left, size // 4 - top), text, fill="black", font=font)
    return np.asarray(picture)


def _resonance(
    samples: NDArray[np.float64], frequency: float, width: float, rate: int
) -> NDArray[np.float64]:
    """Two poles at `frequency`, `width` apart at half the power: a cavity of the mouth."""
    radius = np.exp(-np.pi * width / rate)
    first, second = 2 * radius * np.cos(2 * np.pi * frequency / rate), -radius * radius
    out = np.zeros(len(samples) + 2)
    for index, sample in enumerate(samples):
        out[index + 2] = sample + first * out[index + 1] + second * out[index]
    return out[2:]


def speech(rate: int, seconds: float) -> NDArray[np.float32]:
    """float32[samples] in -1 … 1: syllables of a hiss and a vowel, four a second, their pitch falling."""
    draws = np.random.Generator(np.random.PCG64(0))
    syllables = []
    for number in range(round(seconds * 4)):
        count = rate // 4
        time = np.arange(count) / rate
        pitch = (135 - 40 * number / (seconds * 4)) * (1 + 0.03 * np.sin(2 * np.pi * 5 * time))
        phase = np.cumsum(pitch / rate)
        pulses = np.diff(np.floor(phase), prepend=0) + 0.002 * draws.standard_normal(count)
        voice = pulses
        for frequency, width in zip(VOWELS[number % len(VOWELS)], (80, 100, 140), strict=True):
            voice = _resonance(voice, frequency, width, rate)
        voice = (
            voice / np.abs(voice).max() * np.clip(np.minimum(time / 0.03 - 1.5, (0.23 - time) / 0.05), 0, 1)
        )
        hiss = (
            0.1 * draws.standard_normal(count) * np.clip(np.minimum(time / 0.01, (0.05 - time) / 0.02), 0, 1)
        )
        syllables.append(0.5 * voice + hiss)
    return np.concatenate(syllables).astype(np.float32)


def silence(rate: int, seconds: float) -> NDArray[np.float32]:
    """float32[samples]: the noise of a quiet room, 66 dB below full scale."""
    draws = np.random.Generator(np.random.PCG64(1))
    return (0.0005 * draws.standard_normal(round(rate * seconds))).astype(np.float32)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png() -> bytes:
    header = struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(16)) for y in range(16))
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("first.txt", "second.txt"):
            archive.writestr(zipfile.ZipInfo(name), f"the text of {name}\n" * 40)
    return held.getvalue()


def _pdf() -> bytes:
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Contents 4 0 R >>",
        b"<< /Length 36 >>\nstream\nBT /F1 12 Tf 20 50 Td (Hello) Tj ET\nendstream",
    )
    made = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(made)
    return made + b"xref\n0 5\n0000000000 65535 f \n" + rows + trailer


SHELL = """#!/bin/sh
set -eu
for file in "$@"; do
    if [ ! -f "$file" ]; then
        echo "no such file: $file" >&2
        exit 1
    fi
    gzip -9 < "$file" > "$file.gz" && rm -- "$file"
done
"""
HTML = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>A page</title><link rel="stylesheet" href="page.css"></head>
<body>
<h1>Heading</h1>
<p>Some <em>text</em> with a <a href="other.html">link</a>.</p>
<ul><li>one</li><li>two</li></ul>
</body>
</html>
"""
CSS = """body { margin: 0 auto; max-width: 40em; font-family: Georgia, serif; color: #222; }
h1, h2 { font-weight: normal; border-bottom: 1px solid #ccc; }
a:hover { text-decoration: underline; }
@media (max-width: 600px) { body { padding: 0 1em; } .wide { display: none; } }
"""


def files() -> dict[str, bytes]:
    """Contents by the label that they should get."""
    rows = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(12)]
    with Path(sys.executable).open("rb") as program:
        elf = program.read(1 << 16)
    return {
        "python": Path(__file__).read_bytes(),
        "json": json.dumps({"version": 2, "rows": rows}, indent=2).encode(),
        "pdf": _pdf(),
        "png": _png(),
        "elf": elf,
        "shell": SHELL.encode(),
        "html": HTML.encode(),
        "css": CSS.encode(),
        "zip": _zip(),
    }
