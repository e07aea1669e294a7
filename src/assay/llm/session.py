"""A session as a file: the cache's pages of a prompt, to be taken up by the same model later.

The file is GGUF: what the bits depend on and the tokens are its metadata, the states' pages its tensors.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError, ModelNotFoundError, RequestError, shown
from assay.formats.gguf import GgufFile, open_gguf
from assay.formats.gguf_writer import Row, write_gguf
from assay.kernels.sizes import PAGE
from assay.llm.engine import Engine
from assay.llm.identity import Identity

FORM = "assay.session"


def save(path: Path, engine: Engine, tokens: list[int], identity: Identity, adapter: str | None) -> int:
    """Write what the cache holds of `tokens` with this adapter and return how many these are. Raises
    RequestError when it holds nothing of them.
    """
    pages, count = engine.prefixes.find(engine.rooted(adapter), tokens, len(tokens))
    if not count:
        raise RequestError("nothing of this prompt is in the cache", place="prompt", hint="generate from it")
    stored = np.array(tokens[:count], np.int32)
    rows, data = list[Row](), sha256(stored.data)
    for name, memory in zip(engine.executor.graph.states, engine.memory, strict=True):
        kind = engine.executor.graph.types[name]
        shape = (len(pages), *(dim.at({}) for dim in kind.shape[1:]))
        raw = memory[pages].reshape(-1)
        data.update(raw.data)
        rows.append((name, kind.dtype, shape, raw))
    said = {f"session.{name}": value for name, value in identity.how.items()}
    said |= {"general.architecture": FORM, "session.model": identity.digest()}
    said |= {"session.adapter": engine.adapters[adapter].hex(), "session.data": data.hexdigest()}
    write_gguf(path, {**said, "session.tokens": stored}, rows)
    return count


def restore(path: str | Path, engine: Engine, identity: Identity) -> int:
    """Put a session's pages into the cache and return how many tokens they hold. Raises FormatError for what
    isn't a session of this model, run in this way, RequestError where there is none, or no room for it.
    """
    if not engine.prefix_cache:
        hint = "load the model with prefix_cache=True"
        raise RequestError("nothing is kept in the cache", place="prefix_cache", hint=hint)
    try:
        opened = open_gguf(Path(path))
    except (ModelNotFoundError, TypeError):
        want, rule = "a file of save_session", "there is no such session"
        raise RequestError(rule, place="path", want=want, got=shown(str(path))) from None
    with opened as file:
        wanted = {f"session.{name}": value for name, value in identity.how.items()}
        for key, want in {"general.architecture": FORM, **wanted, "session.model": identity.digest()}.items():
            got = file.keys.text(key)
            if got != want:
                place = f"{path} › key {key!r}"
                raise FormatError("a session of another kind", place=place, want=want[:200], got=got[:200])
        digest, adapters = file.keys.text("session.adapter"), engine.adapters.items()
        adapter = [name for name, known in adapters if known.hex() == digest]
        if not adapter:
            place, want = f"{path} › key 'session.adapter'", "an adapter that the model was loaded with"
            raise FormatError("a session of another adapter", place=place, want=want, got=digest[:80])
        tokens, free = _tokens(file, engine), engine.pages.free * PAGE
        if len(tokens) > free:
            want, hint = (
                f"room for {len(tokens)} tokens",
                "wait for answers to end, or give more cache_tokens",
            )
            raise RequestError("the cache is full", place=str(path), want=want, got=str(free), hint=hint)
        memory = [
            _pages(file, name, engine, -(-len(tokens) // PAGE)) for name in engine.executor.graph.states
        ]
        data = sha256(np.array(tokens, np.int32).data)
        for raw in memory:
            data.update(raw.data)
        if data.hexdigest() != file.keys.text("session.data"):
            raise FormatError("a session's data are damaged", place=str(path), hint="save it again")
        engine.fill(tokens, memory, adapter[0])
    return len(tokens)


def _tokens(file: GgufFile, engine: Engine) -> list[int]:
    stored = file.metadata.get("session.tokens")
    most, found = engine.context, list[int]()
    if isinstance(stored, np.ndarray) and stored.dtype == np.int32:
        found = stored.tolist()
    if not 0 < len(found) <= most or min(found) < 0 or max(found) >= engine.vocabulary:
        want, rule = f"1 to {most} tokens below {engine.vocabulary}", "a session that doesn't fit"
        raise file.keys.error("session.tokens", want, f"{len(found)} tokens", rule)
    return found


def _pages(file: GgufFile, name: str, engine: Engine, count: int) -> NDArray[np.uint8]:
    """uint8 [pages, bytes] of one state."""
    info, kind = file.tensor(name), engine.executor.graph.types[name]
    shape = (count, *(dim.at({}) for dim in kind.shape[1:]))
    if info.dtype is not kind.dtype or info.shape != shape:
        place, want = f"{file.path} › tensor {name!r}", f"{kind.dtype}{list(shape)}"
        got = f"{info.dtype}{list(info.shape)}"
        raise FormatError("a session that doesn't fit", place=place, want=want, got=got)
    return file.raw(name).reshape(count, -1)
