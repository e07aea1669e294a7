"""Faults that can be planted: each stands once in the file that it is for, or none is planted at all."""

from __future__ import annotations

import pytest

from faults import GROUPS
from houserules.sources import SRC

CHANGES = sorted({(file, old) for _, changes in GROUPS for file, old, _ in changes})


@pytest.mark.parametrize(("file", "old"), CHANGES)
def test_a_fault_can_be_planted(file: str, old: str) -> None:
    assert (SRC / file).read_text().count(old) == 1
