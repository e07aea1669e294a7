"""The keys in which a GGUF file says what a model's shape is."""

from __future__ import annotations

import numpy as np

from assay.errors import FormatError
from assay.formats.fields import Keys
from assay.formats.quant import dequantise
from assay.formats.tensors import GgufContents, Wanted, hold, near, quoted
from assay.models.decoder import VECTORS


class Hyperparameters(Keys):
    """The keys `architecture.…` of a file. Every key must be asked for: `finish` refuses those that weren't.

    `tensors` are those that were read as parameters.
    """

    def __init__(self, file: GgufContents, architecture: str) -> None:
        super().__init__(file.metadata, str(file.path), f"{architecture}.")
        self.file = file
        self.tensors: set[str] = set()

    def aside(self, *prefixes: str) -> None:
        """Keys that begin so change nothing: they are about a part that isn't run, or about the past."""
        own = tuple(self.prefix + prefix for prefix in prefixes)
        self.asked.update(key for key in self.values if key.startswith(own))

    def rows(self, tensor: str) -> int:
        """Of a table that the file must have."""
        if tensor not in self.file.tensors:
            place, hint = f"{self.place} › tensor {quoted(tensor)}", near(tensor, self.file.tensors)
            raise FormatError("a tensor is missing", place=place, hint=hint)
        return self.file.tensors[tensor].shape[0]

    def vector(self, tensor: str, size: int, required: bool) -> tuple[float, ...]:
        """The positive numbers of a small tensor, none where the file hasn't got it and needn't."""
        tensors = {name: info for name, info in self.file.tensors.items() if name == tensor}
        if not tensors and not required:
            return ()
        hold(tensors, {tensor: Wanted((size,), VECTORS)}, self.place)
        values = dequantise(self.file.raw(tensor), tensors[tensor].dtype, (size,))
        if not (np.isfinite(values) & (values > 0)).all():
            place = f"{self.place} › tensor {quoted(tensor)}"
            raise FormatError("a number is out of range", place=place, want="positive, finite numbers")
        self.tensors.add(tensor)
        return tuple(values.tolist())

    def finish(self) -> None:
        """Raises FormatError for a key that nobody asked for: it may change what the model computes."""
        for key in self.values:
            if key.startswith(self.prefix) and key not in self.asked:
                close = near(key, sorted(self.asked - self.values.keys()))
                rule, hint = "a key that isn't known", close or "it may change what the model computes"
                want = f"keys whose meaning for {self.prefix[:-1]} is known"
                raise self.error(key.removeprefix(self.prefix), want, key, rule, hint)
