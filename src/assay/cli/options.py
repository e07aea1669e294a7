"""Arguments that several commands have in common, and the types of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from assay.cli.command import Argument, Values
from assay.cli.streams import read
from assay.errors import RequestError, near
from assay.llm.options import ACTIVATIONS, QUANTIZE
from assay.llm.request import Sampling, SamplingFields


def whole(low: int) -> Callable[[str], int]:
    """A type of argument: an integer of at least `low`."""

    def integer(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) < low:
            raise RequestError("not such an integer", want=f"an integer of at least {low}", got=repr(text))
        return int(text)

    return integer


def number(text: str) -> float:
    """A type of argument: a number."""
    try:
        return float(text)
    except ValueError:
        raise RequestError("not a number", want="a number", got=repr(text)) from None


def bias(text: str) -> tuple[int, float]:
    """A type of argument: a token's id, a colon, and what is added to its logit."""
    token, colon, amount = text.partition(":")
    if not colon:
        want = "a token's id, a colon and a number: 42:-100"
        raise RequestError("not a bias", want=want, got=repr(text))
    return whole(0)(token), number(amount)


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """A type of argument: one of these names, in any case."""

    def name(text: str) -> str:
        if text.lower() not in names:
            rule = f"no such choice{near(text.lower(), names, '; ')}"
            raise RequestError(rule, want=" | ".join(names), got=repr(text))
        return text.lower()

    return name


def schema(text: str) -> str:
    """A type of argument: a JSON object, or the name of a file that holds a schema."""
    return text if text.lstrip().startswith("{") else read(text)


def named(one: Callable[[str], object]) -> Callable[[str], tuple[str, object]]:
    """A type of argument: a name, `=`, and one of that type."""

    def pair(text: str) -> tuple[str, object]:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise RequestError("no name and value", want="NAME=VALUE", got=repr(text))
        return name, one(value)

    return pair


def sizes(text: str) -> tuple[int, ...]:
    """A type of argument: sizes with commas between; none of a number alone."""
    return tuple(map(whole(0), text.split(","))) if text else ()


def several(one: Callable[[str], object]) -> Callable[[str], tuple[object, ...]]:
    """A type of argument: some of that type, with commas between."""
    return lambda text: tuple(map(one, text.split(",")))


JSON = Argument("--json", "for programs")
FORMS = "a name (smollm2, ppocr-det), a .gguf or .onnx file, a folder with safetensors, or pypi:package/path"
MODEL = Argument("model", FORMS)
SHARED = "how many; default: ASSAY_THREADS, or all that may be used; no result depends on it"
THREADS = Argument("--threads", SHARED, "N", whole(1))
KINDS, MODES = one_of(QUANTIZE), one_of(ACTIVATIONS)
ACTIVATION = Argument(
    "--activations", "float32 is exact to rounding, and slower", "|".join(ACTIVATIONS), MODES, "int8"
)
SHAPES = Argument(
    "--shape", "an input's sizes, where the model leaves them open", "NAME=N,…", named(sizes), repeated=True
)
ROUNDED = f"round plain matrices to blocks while they are loaded: {', '.join(QUANTIZE)}"
LOADING = (MODEL, THREADS, ACTIVATION, Argument("--quantize", ROUNDED, "TYPE", KINDS))
"""MODEL, and how it is run."""
MAX_TOKENS = "--max-tokens", "the most tokens of an answer", "N", whole(1)
ADAPTER = Argument("--adapter", "a folder with a LoRA in PEFT's layout that is applied to MODEL", "FOLDER")
ANSWERING = (
    *LOADING,
    ADAPTER,
    Argument("--draft", "a smaller model with the same tokens that guesses", "MODEL"),
    Argument("--guesses", "compute guesses of the next tokens along, where that pays", default=True),
    Argument("--temperature", "0 takes the likeliest token, more varies; default: 0", "X", number),
    Argument("--top-k", "draw from the N likeliest; default: 0, all", "N", whole(0)),
    Argument("--min-p", "draw from those at least X times as likely as the best; default: 0", "X", number),
    Argument("--typical-p", "draw from those nearest the entropy, X in all; default: 1", "X", number),
    Argument("--top-p", "draw from the likeliest, of probability X in all; default: 1", "X", number),
    Argument("--repetition-penalty", "above 1: avoid what prompt or answer had; default: 1", "X", number),
    Argument("--presence-penalty", "-2 to 2: avoid tokens that were in the answer; default: 0", "X", number),
    Argument("--frequency-penalty", "-2 to 2: the same for each time they were; default: 0", "X", number),
    Argument("--logit-bias", "add X, -100 to 100, to this token's logit", "ID:X", bias, repeated=True),
    Argument("--bad-word", "never say this", "TEXT", repeated=True),
    Argument("--min-tokens", "don't end before the answer has N tokens", "N", whole(0)),
    Argument("--ignore-eos", "don't end at a token that ends texts"),
    Argument("--json-schema", "hold the answer to this JSON schema", "FILE|{...}", schema),
    Argument("--regex", "hold the answer to this regular expression", "RE"),
    Argument("--grammar", "hold the answer to this grammar, in Lark's notation", "FILE", read),
    Argument("--seed", "same seed, same answer; default: drawn", "N", whole(0)),
    Argument("--stop", "end where this appears", "TEXT", repeated=True),
)
"""MODEL, what helps it, and fields of `Sampling`, which say how tokens are chosen."""


def ways(arguments: Values) -> dict[str, object]:
    """How a benchmark's model is run, and how often."""
    return {name: getattr(arguments, name) for name in ("activations", "quantize", "repeats")}


def sampling(arguments: Values) -> SamplingFields:
    """The fields of `Sampling` that are given, checked before a model is loaded. Raises RequestError."""
    pairs = arguments.logit_bias or ()
    if len(dict(pairs)) < len(pairs):
        got = ", ".join(f"{token}:{amount:g}" for token, amount in pairs)
        raise RequestError("a token has two", place="--logit-bias", want="one for each token", got=got)
    given = vars(arguments) | {"bad_words": arguments.bad_word, "logit_bias": dict(pairs)}
    known = Sampling.__dataclass_fields__
    fields = cast("SamplingFields", {name: given[name] for name in known if given.get(name) is not None})
    try:
        Sampling(**fields)
    except RequestError as error:
        field = error.place.partition("[")[0]
        error.place = "--bad-word" if field == "bad_words" else f"--{field.replace('_', '-')}"
        raise
    return fields
