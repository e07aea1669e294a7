"""How sure each of Silero's graphs is that a chunk of sound is speech. Any engine runs them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models_onnx.engines import Run

CHUNK, CONTEXT = {8000: 256, 16000: 512}, {8000: 32, 16000: 64}
"""Samples of one chunk, and of those before it that it comes with, by rate."""
RATES = {
    "silero-vad": (8000, 16000),
    "silero-vad-16k": (16000,),
    "silero-vad-half": (16000,),
    "silero-vad-sequence": (16000,),
    "silero-vad-ifless": (8000, 16000),
    "silero-vad-openvino": (16000,),
}
WITHOUT_RATE = ("silero-vad-half", "silero-vad-openvino")


def chunks(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """float32[chunks, context + chunk]: each with the samples before it, zeros before the first."""
    size, before = CHUNK[rate], CONTEXT[rate]
    count = len(samples) // size
    padded = np.concatenate([np.zeros(before, np.float32), samples])
    return np.stack([padded[number * size : (number + 1) * size + before] for number in range(count)])


def chances(run: Run, name: str, samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """float32[chunks]: the chance of speech in each, the state going from chunk to chunk."""
    parts = chunks(samples, rate)
    if name == "silero-vad-sequence":
        zeros = np.zeros((1, 1, 128), np.float32)
        return run({"input": parts, "h": zeros, "c": zeros})["speech_probs"]
    rates = {} if name in WITHOUT_RATE else {"sr": np.array(rate, np.int64)}
    state, found = np.zeros((2, 1, 128), np.float32), []
    for part in parts:
        made = run({"input": part[None], "state": state, **rates})
        state = made["stateN"]
        found.append(made["output"][0, 0])
    return np.array(found)
