"""mistral: a llama with a sliding window."""

from __future__ import annotations

from assay.models import llama
from assay.models.architecture import Architecture

ARCHITECTURE = Architecture(llama.like, llama.parts, llama.from_gguf)
