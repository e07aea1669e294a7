"""The `tokenizers` library's readings of a text: as plain text, and with special tokens' names in it."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping

from tokenizers import AddedToken, Tokenizer, models
from tokenizers.pre_tokenizers import PreTokenizer

Model = Mapping[str, object]
"""The `type` of one of the library's models, "BPE", "Unigram" or "WordPiece", and what that takes."""


def readings(model: Model, tokens: Collection[AddedToken], special: Tokenizer) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of plain text and of text with special tokens: the latter is what becomes of `special`,
    which says how a text is changed and cut. Raises what the library does when the model isn't sound.
    """
    names = [token.content for token in tokens if token.special]
    vocabulary, merges = model["vocab"], model.get("merges")
    made = [*map("".join, merges)] if isinstance(merges, list) else []
    if isinstance(vocabulary, dict) and not all(map(vocabulary.__contains__, made)):  # the library may panic
        missing = next(token for token in made if token not in vocabulary)
        raise ValueError(f"no token {missing!r}, which a merge makes")
    special.model = _built(model)
    hidden = _without(model, names) if _spells(model, names, made, special.pre_tokenizer) else model
    plain = Tokenizer(special.model if hidden is model else _built(hidden))
    plain.normalizer, plain.pre_tokenizer = special.normalizer, special.pre_tokenizer
    special.add_tokens([*tokens])
    plain.add_tokens([token for token in tokens if not token.special])
    return plain, special


def _built(model: Model) -> models.Model:
    built: models.Model = getattr(models, str(model["type"]))(
        **{name: value for name, value in model.items() if name != "type" and value is not None}
    )
    return built


def _spells(model: Model, names: list[str], made: list[str], cut: PreTokenizer | None) -> bool:
    """Whether the model, whose merges have `made` those tokens, may make a name's token of a text."""
    if "merges" not in model or not {*names}.isdisjoint(made) or any(len(name) == 1 for name in names):
        return bool(names)
    whole = (not cut or len(cut.pre_tokenize_str(name)) == 1 for name in names)
    return bool(model.get("ignore_merges")) and any(whole)


def _without(model: Model, names: list[str]) -> Model:
    """The model with these tokens under names that no text can spell."""
    hidden = {name: secrets.token_hex(16) for name in names}
    changed = dict(model)
    vocabulary, merges, unknown = model["vocab"], model.get("merges"), model.get("unk_token")
    if isinstance(vocabulary, dict):
        changed["vocab"] = {hidden.get(token, token): number for token, number in vocabulary.items()}
    elif isinstance(vocabulary, list):
        changed["vocab"] = [(hidden.get(token, token), score) for token, score in vocabulary]
    if isinstance(merges, list):
        changed["merges"] = [pair for pair in merges if hidden.keys().isdisjoint((*pair, "".join(pair)))]
    if isinstance(unknown, str):
        changed["unk_token"] = hidden.get(unknown, unknown)
    return changed
