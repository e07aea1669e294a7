"""Cut the header of SmolLM2's GGUF file down to `smollm2_header.bin`: `python cut_header.py MODEL.gguf`.

The three vocabulary arrays keep their first 64 entries; every other byte of the header is as published (by
HuggingFaceTB, Apache-2.0). The tensor data is left out: a file extended by `tensor_bytes` after the aligned
end of the header is sound again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf

KEPT = 64


def main(model: Path) -> None:
    reader = gguf.GGUFReader(model)
    raw = bytes(reader.data[: reader.data_offset])
    last = reader.tensors[-1].field
    end = last.offset + sum(part.nbytes for part in last.parts)
    cut, at = b"", 0
    for field in reader.fields.values():
        if field.types[:1] == [gguf.GGUFValueType.ARRAY] and len(field.data) > KEPT:
            # parts: key length, key, type, element type, count, then the elements
            count_at = field.offset + sum(part.nbytes for part in field.parts[:4])
            first = count_at + 8
            per = 2 if field.types[1] == gguf.GGUFValueType.STRING else 1
            kept = first + sum(part.nbytes for part in field.parts[5 : 5 + per * KEPT])
            cut += raw[at:count_at] + KEPT.to_bytes(8, "little") + raw[first:kept]
            at = field.offset + sum(part.nbytes for part in field.parts)
    cut += raw[at:end]
    Path(__file__).with_name("smollm2_header.bin").write_bytes(cut)
    print(f"{len(cut)} bytes of header, tensor_bytes {len(reader.data) - reader.data_offset}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
