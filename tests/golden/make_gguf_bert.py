"""Makes tests/golden/gguf/llama_cpp_bert.json: llama.cpp's ids and embeddings of texts, with the golden bert
as a GGUF file of tests/llm/converted.py.

    pip install llama-cpp-python==0.3.36 gguf==0.19.0
    PYTHONPATH=tests python tests/golden/make_gguf_bert.py

As exact as llama.cpp gets: float32 weights, no flash attention, one thread.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import gguf
from llama_cpp import Llama

from llm.converted import BERT_TEXTS, write_bert


def embedded(path: Path) -> tuple[list[list[int]], list[list[float]]]:
    model = Llama(
        str(path), n_ctx=512, n_batch=512, n_ubatch=512, n_threads=1, n_threads_batch=1, n_gpu_layers=0,
        flash_attn=False, embedding=True, verbose=False,
    )  # fmt: skip
    ids = [model.tokenize(text.encode()) for text in BERT_TEXTS]
    return ids, [model.embed(text, normalize=True) for text in BERT_TEXTS]


def main() -> None:
    found: dict[str, object] = {"texts": BERT_TEXTS}
    with tempfile.TemporaryDirectory() as folder:
        for kind in (gguf.PoolingType.MEAN, gguf.PoolingType.CLS):
            path = Path(folder) / f"{kind.name}.gguf"
            write_bert(path, kind)
            found["ids"], vectors = embedded(path)
            found[kind.name.lower()] = [[round(value, 7) for value in vector] for vector in vectors]
    (Path(__file__).parent / "gguf" / "llama_cpp_bert.json").write_text(json.dumps(found) + "\n", "utf-8")


if __name__ == "__main__":
    main()
