"""Assay: an inference engine that people can check.

    lm = assay.load("smollm2")
    print(lm.generate("Once upon a time", max_tokens=64).text)

Importing this takes milliseconds: what a model needs is imported when one is loaded.
"""

from __future__ import annotations

from importlib import import_module

from assay.errors import (
    AssayError,
    ContractError,
    DeadlineExceeded,
    FormatError,
    HardwareFault,
    KernelBuildError,
    ModelNotFoundError,
    PrecisionOverflow,
    ProtocolError,
    RequestError,
    SchedulingDeadlock,
    StoreError,
    Violation,
)
from assay.load import Progress, load

TYPE_CHECKING = False  # typing's own takes milliseconds to import
if TYPE_CHECKING:
    from assay.audit.report import Report, check
    from assay.formats.loader import DataLoader
    from assay.llm.answer import Completion, Timings, Usage
    from assay.llm.embedding_model import EmbeddingModel
    from assay.llm.language_model import LanguageModel, Stream
    from assay.llm.request import Sampling
    from assay.runtime.model import Model, TensorSpec

__version__ = "0.1.0"
__all__ = [
    "AssayError", "Completion", "ContractError", "DataLoader", "DeadlineExceeded", "EmbeddingModel",
    "FormatError", "HardwareFault", "KernelBuildError", "LanguageModel", "Model", "ModelNotFoundError",
    "PrecisionOverflow", "Progress", "ProtocolError", "Report", "RequestError", "Sampling",
    "SchedulingDeadlock", "StoreError", "Stream", "TensorSpec", "Timings", "Usage", "Violation",
    "__version__", "check", "load",
]  # fmt: skip

_LATE = {
    "Completion": "assay.llm.answer",
    "DataLoader": "assay.formats.loader",
    "EmbeddingModel": "assay.llm.embedding_model",
    "LanguageModel": "assay.llm.language_model",
    "Model": "assay.runtime.model",
    "Report": "assay.audit.report",
    "Sampling": "assay.llm.request",
    "Stream": "assay.llm.language_model",
    "TensorSpec": "assay.runtime.model",
    "Timings": "assay.llm.answer",
    "Usage": "assay.llm.answer",
    "check": "assay.audit.report",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    value: object = getattr(import_module(_LATE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
