"""All families, by operator."""

from __future__ import annotations

from differential import drawn_control, drawn_elements, drawn_layers, drawn_shapes, drawn_signals
from differential.families import FAMILIES

__all__ = ["FAMILIES", "drawn_control", "drawn_elements", "drawn_layers", "drawn_shapes", "drawn_signals"]
