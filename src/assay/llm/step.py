"""One step of a language model's graph: its inputs, and whose rows they are."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from assay.errors import PrecisionOverflow
from assay.kernels.sizes import PAGE
from assay.llm import controls
from assay.llm.scheduler import Share
from assay.llm.sequence import DRAW, Alternatives
from assay.ops.sample import PARAMETERS

Arrays = dict[str, NDArray[np.generic]]
Row = tuple[int, float, Alternatives]
"""What is drawn of one row: the token, the natural logarithm of its probability, and those of others."""


def step_inputs(
    shares: Items[Share], vocabulary: int, adapters: Items[str | None] = (None,)
) -> tuple[dict[str, int], Arrays]:
    """The sizes and inputs of a step that holds `shares`, with logits and a draw for each row that they ask
    for. `adapters` are the names that sequences may give; the first, None, is for none.
    """
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    spans = [0]
    rows: list[int] = []
    drawn_at: list[int] = []
    draws: list[np.void] = []
    asking: list[int] = []
    adjusted: list[controls.Row] = []
    for share in shares:
        sequence, first = share.sequence, share.sequence.computed
        end = first + share.count
        tokens += [*sequence.tokens[first:end], *share.guesses]
        positions += range(first, end)
        slots += [sequence.pages[at // PAGE] * PAGE + at % PAGE for at in range(first, end)]
        spans.append(len(tokens))
        if share.rows and sequence.controls:
            asking += range(len(rows), len(rows) + share.rows)
            adjusted += sequence.controls.rows(sequence.tokens, share.guesses, share.rows)
        rows += range(len(tokens) - share.rows, len(tokens))
        drawn_at += range(end - share.rows + 1, end + 1)
        draws += [sequence.draw[0]] * share.rows
    draw = np.empty(len(rows), DRAW)
    for row, each in enumerate(draws):  # to concatenate them would compare their fields
        draw[row] = each
    draw["position"] = drawn_at
    draw["source"] = -1
    if asking:
        draw["source"][asking] = range(len(asking))
    int32 = np.int32
    inputs: Arrays = {
        "tokens": np.array(tokens, int32),
        "positions": np.array(positions, int32),
        "slots": np.array(slots, int32),
        "spans": np.array(spans, int32),
        "pasts": np.array([share.sequence.computed for share in shares], int32),
        "table": np.array([share.sequence.table for share in shares], int32),
        "rows": np.array(rows, int32),
        "asking": np.array(asking, int32),
        **{name: draw[name] for name in PARAMETERS},
    }
    inputs |= controls.stacked(adjusted, vocabulary)
    if len(adapters) > 1:
        chosen = [adapters.index(share.sequence.sampling.adapter) - 1 for share in shares]
        inputs["adapter"] = np.repeat(np.array(chosen, int32), [share.count for share in shares])
    sizes = {"T": len(tokens), "S": len(shares), "R": len(rows), "A": len(asking)}
    return sizes | {"E": inputs["adjust.ids"].size}, inputs


def drawn_rows(shares: Items[Share], outputs: Arrays) -> Iterator[Row]:
    """What a step drew, row by row, with as many alternatives as each request asks for."""
    tokens, logprobs = outputs["sample.tokens"].tolist(), outputs["sample.logprob"].tolist()
    wanted = [share.sequence.sampling.top_logprobs for share in shares for _ in range(share.rows)]
    if not any(wanted):
        return zip(tokens, logprobs, repeat(()), strict=False)
    others, theirs = outputs["sample.top_tokens"].tolist(), outputs["sample.top_logprobs"].tolist()
    rows = zip(others, theirs, wanted, strict=True)
    top = (tuple(zip(row[:most], values[:most], strict=True)) for row, values, most in rows)
    return zip(tokens, logprobs, top, strict=True)


def owner(shares: Items[Share], error: PrecisionOverflow) -> Share:
    """Whose row it was that left its range."""
    row = error.row
    for share in shares:
        row -= share.count if error.rows == "T" else share.rows
        if row < 0:
            return share
    raise error
