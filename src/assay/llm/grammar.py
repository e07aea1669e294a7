"""Answers held to a JSON schema, a regular expression or a grammar, by way of llguidance."""

from __future__ import annotations

import json
from collections.abc import Iterable

import llguidance
import numpy as np
from numpy.typing import NDArray

from assay.errors import RequestError
from assay.llm.tokenizer import Tokenizer

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose members are schemas with names of the user's choice."""
DATA = frozenset({"enum", "const", "default", "examples", "required"})
_OTHERS = """
    $schema $id $anchor $comment title description deprecated readOnly writeOnly type $ref anyOf oneOf allOf
    additionalProperties minProperties maxProperties items prefixItems additionalItems minItems maxItems
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format
"""
KEYWORDS = MAPS | DATA | set(_OTHERS.split())
"""What llguidance implements, and what says nothing of a value. It skips keywords that it doesn't know."""
MAKERS = {"json_schema": "json_schema", "regex": "regex", "grammar": "lark"}


class Grammars:
    """A vocabulary as llguidance knows it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        count, ends = tokenizer.vocabulary_size, sorted(tokenizer.end_ids)
        if not ends:
            want = "a token that ends an answer"
            raise RequestError("answers of this model can't be constrained", want=want, got="none")
        self._encode = tokenizer.encode
        self.tokens = [*map(tokenizer.token_bytes, range(count))]
        self.special_token_ids = [token for token in range(count) if not tokenizer.piece(token)]
        self.bos_token_id, self.eos_token_id = tokenizer.bos_id, ends[0]
        self._words = -(-count // 32)
        self._made = llguidance.LLTokenizer(llguidance.TokenizerWrapper(self), count, ends)

    def __call__(self, text: str) -> list[int]:
        """How a text that must come is spelled."""
        return self._encode(text)

    def matcher(self, kind: str, text: str) -> Matcher:
        """Follows an answer. Raises RequestError for what it can't be held to."""
        try:
            if kind == "json_schema":
                _check_keywords(json.loads(text), kind)
            made = getattr(llguidance.LLMatcher, f"grammar_from_{MAKERS[kind]}")(text)
        except (ValueError, RecursionError) as error:
            raise _refused(kind, str(error)) from None
        matcher = Matcher(llguidance.LLMatcher(self._made, made, log_level=0), kind, self._words)
        matcher.check()
        return matcher


class Matcher:
    """What may follow the tokens so far."""

    def __init__(self, matcher: llguidance.LLMatcher, kind: str, words: int) -> None:
        self._matcher, self._kind = matcher, kind
        self._mask = np.zeros(words, np.int32)

    def allowed(self) -> NDArray[np.int32]:
        """A bit of 1 for each token that may come next, until the next call, 32 a word, the lowest bit first.
        End tokens may come where the answer is whole.
        """
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        self.check()
        return self._mask

    def follow(self, tokens: Iterable[int]) -> None:
        """Take these tokens of the answer."""
        self._matcher.consume_tokens(list(tokens))

    def check(self) -> None:
        """Raises RequestError, with llguidance's reason, when it can't go on."""
        if self._matcher.is_error():
            raise _refused(self._kind, self._matcher.get_error())


def _check_keywords(schema: object, place: str) -> None:
    """Raises RequestError at the first keyword that nobody would heed."""
    if isinstance(schema, list):
        for number, item in enumerate(schema):
            _check_keywords(item, f"{place}[{number}]")
    elif isinstance(schema, dict):
        for name, value in schema.items():
            if name not in KEYWORDS:
                raise _refused(f"{place}.{name}", f"the keyword {name!r}")
            if name in MAPS and isinstance(value, dict):
                for member, schema_of_it in value.items():
                    _check_keywords(schema_of_it, f"{place}.{name}.{member}")
            elif name not in DATA:
                _check_keywords(value, f"{place}.{name}")


def _refused(place: str, got: str) -> RequestError:
    return RequestError("answers can't be held to this", place=place, want="what is supported", got=got[:300])
