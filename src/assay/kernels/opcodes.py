"""The operations of elementwise.py's chains by number, and what a chain may take. Imports nothing, so that a
caller needs no compiler.
"""

from __future__ import annotations

LOAD, LOAD_ROW, STORE, ADD, MUL, SCALE, SILU, GELU, GELU_TANH, TANH = range(10)
REGISTERS = 8
BLOCK = 256
"""Elements of one register."""
SCRATCH = 4 * BLOCK * REGISTERS
