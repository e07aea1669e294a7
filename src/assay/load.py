"""`assay.load`: a name or a path becomes a model.

What a model takes is imported when one is loaded, so that `import assay` is quick.
"""

from __future__ import annotations

import gc

from assay.errors import RequestError, shown

TYPE_CHECKING = False  # typing's own takes milliseconds to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from assay.llm.embedding_model import EmbeddingModel
    from assay.llm.language_model import LanguageModel
    from assay.llm.options import Options
    from assay.runtime.model import Model


class Progress:
    """What `load` tells as it goes; the base class is silent."""

    def download(self, done: int, total: int) -> None:
        """Bytes of the model's file."""

    def compile(self, done: int, total: int, name: str) -> None:
        """Kernels ready. Called in other threads, one call at a time."""

    def weights(self, done: int, total: int) -> None:
        """Bytes of weights in place."""


def load(
    name: str | Path,
    *,
    threads: int | None = None,
    activations: str = "int8",
    context: int | None = None,
    cache_tokens: int | None = None,
    budget: int | None = None,
    guesses: bool = True,
    draft: str | Path | None = None,
    prefix_cache: bool = True,
    adapters: Mapping[str, str | Path] | None = None,
    quantize: str | None = None,
    progress: Progress | None = None,
) -> LanguageModel | EmbeddingModel | Model:
    """The model with this catalogue name, or in this file or folder, ready to run: a Model if it is an ONNX
    graph, an EmbeddingModel if its files say that it makes vectors of texts. A graph takes `threads` and
    `progress` of what follows.

    `threads` is the team's size, by default all processors that this process may use. `activations`
    "float32" computes linear maps and keeps the cache in float32: slower and exact to rounding. `context`
    limits the tokens of one sequence (default: the model's), `cache_tokens` the tokens of all sequences
    together, `budget` the tokens of one step. `guesses`: what followed the same words before is computed
    along with the next token, as long as that saves steps; with `draft`, a smaller model with the same
    tokens guesses. `prefix_cache`: a prompt that begins like an earlier one computes only the rest. None of
    these changes an answer. `adapters` are names and the folders of LoRA adapters, in PEFT's layout: a
    request may give one's name as its `adapter`. `quantize`, such as "q8_0", rounds matrices of float32,
    float16 or bfloat16 to blocks of that type.

    Raises ModelNotFoundError, FormatError, ContractError, HardwareFault or RequestError.
    """
    from assay import settings
    from assay.llm.options import Options

    if progress is not None and not isinstance(progress, Progress):
        got = type(progress).__name__
        raise RequestError("what hears of progress", place="progress", want="a load.Progress", got=got)
    progress = progress or Progress()
    settings.check()
    threads = settings.THREADS.get() if threads is None else threads
    options = Options(
        activations, context, cache_tokens, budget, threads, guesses, prefix_cache, adapters or {}, quantize
    )
    # Loading makes a hundred thousand objects that stay; to look among them for garbage again and again takes
    # longer than to parse the file.
    collecting = gc.isenabled()
    gc.disable()
    try:
        from assay.hub.pull import resolve
        from assay.llm import loader

        path = resolve(name, progress.download)
        if path.suffix == ".onnx":
            from assay.runtime.model import Model

            _refuse_given(options, draft)
            return Model.load(path, options.threads, progress.compile)
        smaller = None if draft is None else resolve(draft, progress.download)
        return loader.load(path, options, progress.compile, progress.weights, smaller)
    finally:
        if collecting:
            gc.enable()


def _refuse_given(options: Options, draft: str | Path | None) -> None:
    """Raise RequestError for an option that isn't for graphs."""
    plain = {"threads": options.threads, "draft": None} | vars(type(options)())
    given = vars(options) | {"threads": plain["threads"], "draft": draft}
    for name in given:
        if given[name] != plain[name]:
            raise RequestError("a graph has no such option", place=name, got=shown(given[name]))
