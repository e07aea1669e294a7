"""One step of a language model's graph: its inputs, and whose rows they are."""

from __future__ import annotations

from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray

from assay.errors import PrecisionOverflow
from assay.kernels.sizes import PAGE
from assay.llm.scheduler import Share
from assay.llm.sequence import Sequence

Arrays = dict[str, NDArray[np.generic]]


def step_inputs(shares: Items[Share]) -> tuple[dict[str, int], Arrays]:
    """The sizes and inputs of a step that holds `shares`, with logits and a draw for each row that they ask
    for.
    """
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    spans = [0]
    rows: list[int] = []
    draws: list[int] = []
    drawing: list[Sequence] = []
    for share in shares:
        sequence, first = share.sequence, share.sequence.computed
        end = first + share.count
        tokens += [*sequence.tokens[first:end], *share.guesses]
        positions += range(first, end)
        slots += [sequence.pages[at // PAGE] * PAGE + at % PAGE for at in range(first, end)]
        spans.append(len(tokens))
        rows += range(len(tokens) - share.rows, len(tokens))
        draws += range(end - share.rows + 1, end + 1)
        drawing += [sequence] * share.rows
    asked = [sequence.sampling for sequence in drawing]
    int32 = np.int32
    inputs: Arrays = {
        "tokens": np.array(tokens, int32),
        "positions": np.array(positions, int32),
        "slots": np.array(slots, int32),
        "spans": np.array(spans, int32),
        "pasts": np.array([share.sequence.computed for share in shares], int32),
        "table": np.array([share.sequence.table for share in shares], int32),
        "rows": np.array(rows, int32),
        "temperature": np.array([sampling.temperature for sampling in asked], np.float32),
        "top_k": np.array([sampling.top_k for sampling in asked], int32),
        "top_p": np.array([sampling.top_p for sampling in asked], np.float32),
        "seed": np.array([sequence.seed for sequence in drawing], np.int64),
        "choice": np.zeros(len(rows), int32),
        "draw": np.array(draws, int32),
    }
    return {"T": len(tokens), "S": len(shares), "R": len(rows)}, inputs


def owner(shares: Items[Share], error: PrecisionOverflow) -> Share:
    """Whose row it was that left its range."""
    row = error.row
    for share in shares:
        row -= share.count if error.rows == "T" else share.rows
        if row < 0:
            return share
    raise error
