"""An embedder as callers see it: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError, within
from assay.kernels.sizes import PAGE
from assay.llm.fields import flag, token_ids
from assay.llm.loaded import Details, Loaded
from assay.llm.step import Arrays
from assay.llm.tokenizer import Tokenizer
from assay.models.decoder import Decoder
from assay.models.pooling import KINDS
from assay.runtime.executor import Executor

BUDGET = 1024
"""Tokens of one step, unless one text has more."""
TEXTS = 256
"""The most texts of one step."""


def buckets(context: int) -> dict[str, Items[int]]:
    """The sizes that plans of a step are made for."""
    return {"T": (16, 128, max(context, BUDGET)), "S": (1, 8, 64, TEXTS)}


def pages(context: int) -> int:
    """Pages of a cache that holds any step's texts, each from a page's start."""
    return max(context, BUDGET) // PAGE + TEXTS


class EmbeddingModel(Loaded):
    """Made by `assay.load` of an embedder. Threads may share it.

    Arrays that callers get are memory of their own, which no later step writes: `np.from_dlpack`,
    `torch.from_dlpack` and the like take them without a copy, and may keep them.
    """

    def __init__(
        self, executor: Executor, tokenizer: Tokenizer, model: Decoder, context: int, details: Details
    ) -> None:
        super().__init__(executor.graph, executor.device, context, details)
        self.tokenizer, self.longest = tokenizer, min(context, model.pooling.longest or context)
        self._executor, self._model, self._pooling = executor, model, model.pooling

    def embed(
        self, texts: Items[str], *, pooling: str | None = None, truncate: bool = False
    ) -> NDArray[np.float32]:
        """float32 [len(texts), hidden]: a vector for each text, the same whatever the others are.

        `pooling` ("mean", "cls" or "last") goes before what the model's files say. Vectors have length 1,
        unless the files say otherwise. A text with more tokens than `longest` is refused, or with `truncate`
        cut. Raises RequestError, or PrecisionOverflow when a value leaves its range.
        """
        flag("truncate", truncate)
        kind = self.kind(pooling)
        if not isinstance(texts, list | tuple):
            hint = "[text] for a single one" if isinstance(texts, str) else ""
            got = type(texts).__name__
            raise RequestError("a list is wanted", place="texts", want="strings", got=got, hint=hint)
        tokens = [self._tokens(text, f"texts[{index}]", truncate) for index, text in enumerate(texts)]
        found = np.empty((len(tokens), self._model.hidden), np.float32)
        first = 0
        while first < len(tokens):
            step = self.fitting(tokens[first:])
            found[first : first + len(step)] = self.step(step, kind)
            first += len(step)
        return found

    @property
    def vocabulary(self) -> int:
        """The number of tokens that there are."""
        return self._model.vocabulary

    def kind(self, pooling: str | None) -> str:
        """How to pool: as asked, or as the model's files say. Raises RequestError."""
        kind = self._pooling.kind if pooling is None else pooling
        if kind not in KINDS:
            rule = "no such pooling" if kind else "this model's files don't say how it pools"
            raise RequestError(rule, place="pooling", want=" or ".join(KINDS), got=repr(pooling))
        return kind

    def fitting(self, texts: Items[list[int]]) -> list[list[int]]:
        """Of texts as tokens, in order, as many as a step holds: one at least."""
        ends = np.cumsum([*map(len, texts[:TEXTS])])
        return list(texts[: max(1, int(np.searchsorted(ends, max(self.context, BUDGET), "right")))])

    def step(self, texts: Items[list[int]], kind: str) -> NDArray[np.float32]:
        """float32 [len(texts), hidden]: the vectors of texts that fit into one step."""
        with self._lock:
            found = self._run(texts, kind)
            return found["unit" if self._pooling.unit else "mean"].astype(np.float32)

    def hidden_states(self, tokens: Items[int]) -> NDArray[np.float32]:
        """float32 [len(tokens), hidden]: the vectors of a text's tokens. Raises RequestError."""
        text = token_ids(tokens, "tokens", self._model.vocabulary, self.context)
        with self._lock:
            return self._run([text], "mean")[self.graph.outputs[0]].astype(np.float32)

    def _tokens(self, text: str, place: str, truncate: bool) -> list[int]:
        tokenizer, most = self.tokenizer, self.longest
        with within(place):
            bos, eos = tokenizer.adds_bos, tokenizer.adds_eos
            tokens = tokenizer.encode(text, bos=bos, eos=eos, most=None if truncate else most)
        if truncate and len(tokens) > most:
            tokens = tokens[: most - 1] + tokens[-1:] if tokenizer.adds_eos else tokens[:most]
        if not 0 < len(tokens) <= most:
            rule = "the text is too long" if tokens else "the text is empty"
            hint = "truncate leaves out what is over" if tokens else ""
            want = f"1 to {most} tokens"
            raise RequestError(rule, place=place, want=want, got=str(len(tokens)), hint=hint)
        return token_ids(tokens, place, self._model.vocabulary, most)

    def _run(self, batch: Items[list[int]], kind: str) -> Arrays:
        """One step. Each text begins a page of the cache; outputs are good until the next step."""
        lengths = np.array([len(tokens) for tokens in batch], np.int32)
        spans = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        first, last = spans[:-1], spans[1:]
        positions = np.arange(spans[-1], dtype=np.int32) - np.repeat(first, lengths)
        held = -(-lengths // PAGE)
        page = np.cumsum(held, dtype=np.int32) - held
        inputs: Arrays = {
            "tokens": np.concatenate(batch, dtype=np.int32),
            "positions": positions,
            "slots": PAGE * np.repeat(page, lengths) + positions,
            "spans": spans,
            "pasts": np.zeros(len(batch), np.int32),
            "table": page[:, None] + np.arange(-(-self.context // PAGE), dtype=np.int32),
            "first": last - np.int32(1) if kind == "last" else first,
            "last": first + np.int32(1) if kind == "cls" else last,
        }
        if self._model.encoder:
            inputs["types"] = np.zeros(len(positions), np.int32)
        return self._executor.run({"T": len(positions), "S": len(batch)}, inputs)
