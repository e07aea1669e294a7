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
    which says how a text is changed and cut. A token has the same id in both. Raises what the library does
    when the model isn't sound.
    """
    hidden = {token.content: secrets.token_hex(16) for token in tokens if token.special}
    vocabulary, merges = model["vocab"], model.get("merges")
    made = [*map("".join, merges)] if isinstance(merges, list) else []
    if isinstance(vocabulary, dict) and not all(map(vocabulary.__contains__, made)):  # the library may panic
        missing = next(token for token in made if token not in vocabulary)
        raise ValueError(f"no token {missing!r}, which a merge makes")
    special.model = _built(model)
    spells = _spells(model, hidden, made, special.pre_tokenizer)
    plain = Tokenizer(_built(_without(model, hidden)) if spells else special.model)
    plain.normalizer, plain.pre_tokenizer = special.normalizer, special.pre_tokenizer
    # Tokens that the model lacks get the next ids in their order, so that hidden ones take theirs here, too.
    lacking = {name for name in hidden if special.token_to_id(name) is None}
    stand_in = {name: AddedToken(hidden[name], normalized=False) for name in lacking}
    special.add_tokens([*tokens])
    named = [stand_in.get(each.content) if each.special else each for each in tokens]
    plain.add_tokens([token for token in named if token])
    for name in (token.content for token in tokens if not token.special):
        if name in hidden or plain.token_to_id(name) != special.token_to_id(name):
            raise ValueError(f"{name!r} can't be told from a special token")
    return plain, special


def _built(model: Model) -> models.Model:
    built: models.Model = getattr(models, str(model["type"]))(
        **{name: value for name, value in model.items() if name != "type" and value is not None}
    )
    return built


def _spells(model: Model, names: Collection[str], made: list[str], cut: PreTokenizer | None) -> bool:
    """Whether the model, whose merges have `made` those tokens, may make a name's token of a text."""
    if "merges" not in model or not {*names}.isdisjoint(made) or any(len(name) == 1 for name in names):
        return bool(names)
    whole = (not cut or len(cut.pre_tokenize_str(name)) == 1 for name in names)
    return bool(model.get("ignore_merges")) and any(whole)


def _without(model: Model, hidden: Mapping[str, str]) -> Model:
    """The model with these tokens under names that no text can spell."""
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
