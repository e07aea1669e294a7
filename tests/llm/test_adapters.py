"""LoRA adapters: each request's own, beside others, kept apart in the cache; what isn't one is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import assay
from assay.errors import FormatError, RequestError
from assay.llm.language_model import LanguageModel
from llm import converted, peft
from llm.converted import GOLDEN, stored

PROMPT = "ab cab zyx\n" * 16
"""More than a page."""


def gguf(path: Path, name: str) -> Path:
    converted.write(path, name)
    return path


def tensors(golden: str) -> dict[str, np.ndarray]:
    return stored(GOLDEN / golden / "model.safetensors")


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2"])
def test_an_adapted_model_is_the_merged_one(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W·x + scale·B·(A·x) and (W + scale·B·A)·x differ in roundings only: 1e-5 of the greatest magnitude, as
    other orders of sums do. The merged model is made by NumPy, and converted as the public converters do.
    """
    adapter = peft.maps(tensors(name))
    folder = peft.write(tmp_path / "adapter", peft.named(adapter))
    tokens = converted.write(tmp_path / "base.gguf", name)[:100]
    monkeypatch.setattr(converted, "stored", lambda path: peft.merged(stored(path), adapter))
    wanted = gguf(tmp_path / "merged.gguf", name)
    options = {"threads": 2, "activations": "float32", "cache_tokens": 512}
    with (
        assay.load(tmp_path / "base.gguf", adapters={"it": folder}, **options) as lm,
        assay.load(tmp_path / "base.gguf", **options) as base,
        assay.load(wanted, **options) as merged,
    ):
        plain, expected = base.logits(tokens), merged.logits(tokens)
        assert np.abs(lm.logits(tokens, "it") - expected).max() <= 1e-5 * np.abs(expected).max()
        assert np.abs(plain - expected).max() > 0.01 * np.abs(expected).max()
        # Tokens without an adapter keep the bits of a model without any.
        assert (lm.logits(tokens) == plain).all()


def test_an_adapter_of_peft_gives_what_transformers_computes_with_it(tmp_path: Path) -> None:
    """tests/golden/make_lora.py recorded it; 1e-4 of the greatest magnitude, as for all golden logits."""
    tokens = converted.write(tmp_path / "m.gguf", "llama")[:120]
    options = {"threads": 2, "activations": "float32", "cache_tokens": 512}
    with assay.load(tmp_path / "m.gguf", adapters={"it": GOLDEN / "lora"}, **options) as lm:
        found, plain = lm.logits(tokens, "it")[::10], lm.logits(tokens)[::10]
    expected = np.load(GOLDEN / "lora" / "output.npy")
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max() < np.abs(plain - expected).max()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 8-bit weights with two adapters, one of them on some maps only."""
    place = tmp_path_factory.mktemp("adapters")
    gguf(place / "m.gguf", "llama")
    whole = peft.maps(tensors("llama"), 1)
    some = peft.maps(tensors("llama"), 2, lambda name: "q_proj" in name or "down" in name)
    peft.write(place / "whole", peft.named(whole))
    targets = ["q_proj", "mlp.down_proj"]
    peft.write(place / "some", peft.named(some), peft.config(use_rslora=True, target_modules=targets))
    return place


def load(place: Path, **options: object) -> LanguageModel:
    adapters = {"whole": place / "whole", "some": str(place / "some")}
    return assay.load(place / "m.gguf", threads=2, **{"adapters": adapters, "cache_tokens": 4096, **options})


def test_rank_stabilised_scaling(place: Path) -> None:
    """use_rslora: alpha / √r, instead of alpha / r."""
    adapter = peft.maps(tensors("llama"), 2, lambda name: "q_proj" in name or "down" in name)
    scaled = {name: (a, b * np.float32(peft.RANK**0.5)) for name, (a, b) in adapter.items()}
    peft.write(place / "scaled", peft.named(scaled))
    with load(place, activations="float32", adapters={"a": place / "some", "b": place / "scaled"}) as lm:
        one, two = (lm.logits(range(40), name) for name in "ab")
        assert np.abs(one - two).max() <= 1e-5 * np.abs(one).max()


def test_a_mixed_batch_is_each_alone(place: Path) -> None:
    asked = [None, "whole", "some", "whole", None, "some"]
    prompts = [PROMPT[: 20 + 23 * index] for index in range(len(asked))]
    alone = []
    for prompt, name in zip(prompts, asked, strict=True):
        with load(place) as lm:
            alone.append(lm.generate(prompt, max_tokens=12, adapter=name, temperature=0.7, seed=3))
    assert len({answer.tokens for answer in alone}) > 3
    with load(place, budget=70) as lm:
        streams = [
            lm.stream(prompt, max_tokens=12, adapter=name, temperature=0.7, seed=3)
            for prompt, name in zip(prompts, asked, strict=True)
        ]
        for stream, wanted in zip(streams, alone, strict=True):
            assert "".join(stream) == wanted.text
            assert stream.completion.tokens == wanted.tokens
            assert stream.completion.logprobs == wanted.logprobs
        lm.engine.check_integrity()


def test_the_cache_keeps_adapters_apart(place: Path) -> None:
    """The same prompt is found again by its own adapter only, and is then the same bits."""
    with load(place) as lm:
        cold = {name: lm.generate(PROMPT, max_tokens=6, adapter=name) for name in (None, "whole", "some")}
        assert all(answer.timings.cached_tokens == 0 for answer in cold.values())
        for name, answer in cold.items():
            warm = lm.generate(PROMPT, max_tokens=6, adapter=name)
            assert warm.timings.cached_tokens >= len(lm.tokenizer.encode(PROMPT)) - 1
            assert (warm.tokens, warm.logprobs) == (answer.tokens, answer.logprobs)


def test_adapters_with_the_same_content_share_what_is_computed(place: Path) -> None:
    with load(place, adapters={"a": place / "whole", "b": place / "whole"}) as lm:
        lm.generate(PROMPT, max_tokens=2, adapter="a")
        assert lm.generate(PROMPT, max_tokens=2, adapter="b").timings.cached_tokens > 0


def test_sessions_belong_to_an_adapter(place: Path, tmp_path: Path) -> None:
    with load(place) as lm:
        wanted = lm.generate(PROMPT, max_tokens=6, adapter="some")
        saved = lm.save_session(tmp_path / "s", PROMPT, adapter="some")
    with load(place, adapters={"other name": place / "some"}) as again:
        assert again.restore_session(tmp_path / "s") == saved
        found = again.generate(PROMPT, max_tokens=6, adapter="other name")
        assert found.timings.cached_tokens == saved - 1
        assert (found.tokens, found.logprobs) == (wanted.tokens, wanted.logprobs)
        assert again.generate(PROMPT, max_tokens=1).timings.cached_tokens == 0
    with (
        load(place, adapters={"some": place / "whole"}) as lm,
        pytest.raises(FormatError, match="a session of another adapter"),
    ):
        lm.restore_session(tmp_path / "s")


def test_a_draft_guesses_for_adapted_requests(place: Path) -> None:
    with load(place, guesses=False) as lm:
        wanted = lm.generate(PROMPT, max_tokens=20, adapter="whole")
    with load(place, draft=place / "m.gguf") as lm:
        found = lm.generate(PROMPT, max_tokens=20, adapter="whole")
    assert (found.tokens, found.logprobs) == (wanted.tokens, wanted.logprobs)


@pytest.mark.parametrize("name", ["other", "", 3, ["whole"]])
def test_an_unknown_adapter_is_refused(place: Path, name: object) -> None:
    with load(place) as lm, pytest.raises(RequestError, match="no such adapter") as refused:
        lm.generate("ab", max_tokens=1, adapter=name)
    assert refused.value.place == "adapter" and "'whole'" in refused.value.want
    with pytest.raises(RequestError):
        load(place, adapters={1: place / "whole"})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bias": "all"}, "bias"),
        ({"use_dora": True}, "use_dora"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 2}}, "alpha_pattern"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"trainable_token_indices": [1]}, "trainable_token_indices"),
        ({"something_new": 1}, "something_new"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"peft_type": "IA3"}, "peft_type"),
        ({"r": 0}, "r"),
        ({"r": 2.5}, "r"),
        ({"lora_alpha": "8"}, "lora_alpha"),
        ({"lora_alpha": 1e300}, "lora_alpha"),
        ({"use_rslora": 1}, "use_rslora"),
        ({"target_modules": ["q_proj", "lm_head"]}, "target_modules"),
        ({"target_modules": ["q_proj", 3]}, "target_modules"),
    ],
)
def test_configs_that_say_something_else_are_refused(
    place: Path, tmp_path: Path, changes: dict[str, object], field: str
) -> None:
    peft.write(tmp_path / "a", peft.named(peft.maps(tensors("llama"))), peft.config(**changes))
    with pytest.raises(FormatError) as refused:
        load(place, adapters={"a": tmp_path / "a"})
    assert refused.value.place.endswith(f"{tmp_path / 'a'} › adapter_config.json › {field}")


STEM = "base_model.model.model.layers.0.self_attn.q_proj"
ROW = np.ones((1, 4), np.float32)


@pytest.mark.parametrize(
    ("changes", "tensor"),
    [
        ({f"{STEM}.lora_A.weight": None}, f"{STEM}.lora_A.weight"),
        ({f"{STEM}.lora_B.weight": None}, f"{STEM}.lora_B.weight"),
        ({f"{STEM}.lora_A.weight": ROW}, f"{STEM}.lora_A.weight"),
        ({f"{STEM}.lora_B.weight": ROW}, f"{STEM}.lora_B.weight"),
        ({f"{STEM}.lora_magnitude_vector": ROW}, f"{STEM}.lora_magnitude_vector"),
        ({f"{STEM}.lora_B.bias": ROW}, f"{STEM}.lora_B.bias"),
        ({"base_model.model.lm_head.lora_A.weight": ROW}, "base_model.model.lm_head.lora_A.weight"),
        ({"base_model.model.lm_head.weight": ROW}, "base_model.model.lm_head.weight"),
        ({"model.layers.0.self_attn.q_proj.lora_A.weight": ROW}, "model.layers.0.self_attn.q_proj.lora_A"),
        ({f"{STEM}.lora_A.weight": np.nan}, f"{STEM}.lora_A.weight"),
        ({f"{STEM}.lora_B.weight": np.inf}, f"{STEM}.lora_B.weight"),
        ({f"{STEM}.lora_B.weight": 3e38}, f"{STEM}.lora_B.weight"),
    ],
)
def test_tensors_that_are_not_the_models_are_refused(
    place: Path, tmp_path: Path, changes: dict[str, object], tensor: str
) -> None:
    given = peft.named(peft.maps(tensors("llama")))
    for name, value in changes.items():
        if value is None:
            del given[name]
        elif isinstance(value, float):
            given[name][1, 2] = value
        else:
            given[name] = value
    peft.write(tmp_path / "a", given)
    with pytest.raises(FormatError) as refused:
        load(place, adapters={"a": tmp_path / "a"})
    assert f"tensor '{tensor}" in refused.value.place


def test_folders_that_are_no_adapters_are_refused(place: Path, tmp_path: Path) -> None:
    for content in ({}, {"peft_type": "LORA"}):
        (tmp_path / "adapter_config.json").write_text(json.dumps(content))
        with pytest.raises(FormatError):
            load(place, adapters={"a": tmp_path})
    for path, hint in (("none", "no such folder"), ("adapter_config.json", "give its folder")):
        with pytest.raises(FormatError) as refused:
            load(place, adapters={"a": tmp_path / path})
        assert hint in refused.value.hint and "download" not in refused.value.hint
    with pytest.raises(FormatError, match="that changes nothing"):
        load(place, adapters={"a": peft.write(tmp_path / "empty", {}, peft.config())})
