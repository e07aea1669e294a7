from __future__ import annotations

import numpy as np
import pytest

from assay.ops.standard.emit import bits_of
from assay.tensor.dtype import BY_NAME


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int8"])
def test_the_bits_of_a_negative_number_fit_a_word(dtype: str) -> None:
    """A kernel's word is an int64, of which the low bytes are the number's."""
    for number in (-1.0, -3.0, 2.0):
        word = np.array([bits_of(number, BY_NAME[dtype])], np.int64)
        assert word.view(dtype)[0] == number
