"""`assay run` on the real model."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import assay
from assay.cli import options, run
from assay.cli.dispatch import command
from assay.errors import RequestError
from assay.kernels.sizes import MOST_TOP
from assay.llm.request import MOST_CHOICES, RANGES, Sampling

PROMPT = "Name three primary colors."


def test_the_answer_is_that_of_the_api(cli, loaded) -> None:
    outcome = cli("run", "smollm2", PROMPT, "--max-tokens", "12")
    text = loaded.chat([{"role": "user", "content": PROMPT}], max_tokens=12).text
    assert outcome.code == 0 and outcome.err == ""
    assert outcome.out.rstrip("\n") == text.rstrip("\n") and outcome.out.endswith("\n")


def test_raw_skips_the_template(cli, loaded) -> None:
    outcome = cli("run", "smollm2", "Once upon a", "--raw", "--max-tokens", "5")
    assert outcome.out.rstrip("\n") == loaded.generate("Once upon a", max_tokens=5).text.rstrip("\n")


def test_json_holds_the_whole_answer(cli, loaded) -> None:
    outcome = cli(
        "run", "smollm2", "-", "--json", "--max-tokens", "6", "--temperature", "0.9", "--seed", "7",
        "--top-k", "40", "--top-p", "0.95", stdin=PROMPT.encode(),
    )  # fmt: skip
    answer = json.loads(outcome.out)
    same = loaded.chat(
        [{"role": "user", "content": PROMPT}], max_tokens=6, temperature=0.9, seed=7, top_k=40, top_p=0.95
    )
    assert answer["text"] == same.text and tuple(answer["tokens"]) == same.tokens
    assert answer["seed"] == 7 and answer["finish_reason"] == same.finish_reason
    assert answer["usage"] == {
        "prompt_tokens": same.usage.prompt_tokens,
        "completion_tokens": len(same.tokens),
    }
    assert answer["timings"]["total"] >= answer["timings"]["first_token"] > 0


def test_stop_ends_the_answer_before_it(cli, loaded) -> None:
    whole = loaded.generate("1, 2, 3, 4,", max_tokens=16).text
    stop = whole[6:8]
    outcome = cli("run", "smollm2", "1, 2, 3, 4,", "--raw", "--max-tokens", "16", "--stop", stop, "--json")
    answer = json.loads(outcome.out)
    assert answer["finish_reason"] == "stop"
    assert answer["text"] == whole[: whole.index(stop)]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (["--temperature", "-1"], "--temperature"),
        (["--temperature", "nan"], "--temperature"),
        (["--top-p", "0"], "--top-p"),
        (["--seed", str(2**63)], "--seed"),
        (["--stop", ""], "--stop"),
    ],
)
def test_options_are_checked_before_the_model_is_loaded(
    cli, monkeypatch, options: list[str], place: str
) -> None:
    monkeypatch.setattr("assay.cli.model.load", None)
    outcome = cli("run", "smollm2", PROMPT, *options)
    assert outcome.code == 2
    assert outcome.err.startswith(f"assay: {place}: ")


def test_a_prompt_that_is_no_text_is_refused(cli, monkeypatch) -> None:
    monkeypatch.setattr("assay.cli.model.load", None)
    for word, stdin in (("-", b"\xff\xfe"), ("\udcff", b"")):
        outcome = cli("run", "smollm2", word, stdin=stdin)
        assert outcome.code == 2
        assert outcome.err.startswith("assay: PROMPT: it is not text\n  wanted UTF-8\n")


@pytest.mark.parametrize(("word", "stdin"), [("", b""), (" \n", b""), ("-", b""), ("-", b"\n")])
def test_an_empty_prompt_is_refused(cli, monkeypatch, word: str, stdin: bytes) -> None:
    monkeypatch.setattr("assay.cli.model.load", None)
    outcome = cli("run", "smollm2", word, stdin=stdin)
    assert outcome.code == 2
    assert outcome.err.startswith("assay: PROMPT: the prompt is empty\n")


@pytest.mark.parametrize(
    ("name", "rule"),
    [("", "the name of the model is empty"), ("http://a/b.gguf", "http://a/b.gguf: URLs aren't read")],
)
def test_what_can_be_no_model_is_told_so(cli, name: str, rule: str) -> None:
    for line in (["run", name, "hi"], ["pull", name], ["show", name]):
        outcome = cli(*line)
        assert outcome.code == 2 and outcome.err.startswith(f"assay: {rule}\n")


def test_a_seed_that_is_drawn_is_told_and_gives_the_answer_again(cli, loaded) -> None:
    line = ["run", "smollm2", PROMPT, "--max-tokens", "6", "--temperature", "2"]
    drawn = cli(*line)
    match = re.fullmatch(r"seed (\d+)\n", drawn.err)
    assert match
    again = cli(*line, "--seed", match[1])
    assert again.out == drawn.out and again.err == ""
    assert cli(*line, "--json").err == ""
    assert cli(*line[:-2]).err == ""


def test_a_prompt_that_is_too_long_is_refused_with_the_numbers(cli, loaded) -> None:
    outcome = cli("run", "smollm2", "word " * 2000, "--max-tokens", "16")
    assert outcome.code == 2
    assert "1024 tokens" in outcome.err and "hint" in outcome.err


def test_a_model_without_a_template_names_the_option(cli, loaded, monkeypatch) -> None:
    monkeypatch.setattr(loaded, "template", None)
    outcome = cli("run", "smollm2", PROMPT)
    assert outcome.code == 2 and "--raw" in outcome.err


def test_options_of_sampling_reach_the_request(tmp_path: Path) -> None:
    """Each option of the table, and those that may be repeated, as fields of Sampling."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    line = "run m p --min-p 0.1 --typical-p 0.9 --repetition-penalty 1.1 --presence-penalty -1 --min-tokens 0"
    line += f" --frequency-penalty 0.5 --logit-bias 42:-100 --logit-bias 7:1.5 --json-schema {schema}"
    fields = options.sampling(command("run").read(line.split()[1:]))
    assert fields["logit_bias"] == {42: -100.0, 7: 1.5} and fields["json_schema"] == '{"type": "object"}'
    assert fields["presence_penalty"] == -1 and fields["min_p"] == 0.1 and "bad_words" not in fields
    assert "temperature" not in fields and Sampling(**fields).typical_p == 0.9


def test_a_schema_may_stand_in_the_line(tmp_path: Path) -> None:
    text = '{"type": "string"}'
    (tmp_path / "schema").write_text(text)
    for given in (text, f" {text}", str(tmp_path / "schema")):
        fields = options.sampling(command("run").read(["m", "p", "--json-schema", given]))
        assert fields["json_schema"].strip() == text


@pytest.mark.parametrize("option", ["--json-schema", "--grammar"])
def test_a_file_that_is_not_there_is_told_in_words(cli, option: str) -> None:
    outcome = cli("run", "m", "p", option, "nowhere")
    assert outcome.code == 2 and "No such file" in outcome.err and "Errno" not in outcome.err


@pytest.mark.parametrize("option", ["--stop", "--bad-word"])
def test_what_is_no_text_is_refused_before_the_model_is_loaded(cli, monkeypatch, option: str) -> None:
    """As a byte arrives that is no UTF-8: no answer could ever hold it."""
    monkeypatch.setattr("assay.cli.model.load", None)
    outcome = cli("run", "smollm2", PROMPT, option, "a", option, "b\udcff")
    assert outcome.code == 2 and outcome.err.startswith(f"assay: {option}: not Unicode text\n")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (["--logit-bias", "3:-100", "--logit-bias", "5:1", "--logit-bias", "3:100"], "--logit-bias"),
        (["--logit-bias", "3:1", "--logit-bias", "3:1"], "--logit-bias"),
    ],
)
def test_two_biases_of_a_token_are_refused(cli, monkeypatch, line: list[str], place: str) -> None:
    monkeypatch.setattr("assay.cli.run.load_model", None)
    outcome = cli("run", "smollm2", PROMPT, *line)
    assert outcome.code == 2 and outcome.err.startswith(f"assay: {place}: ")


def test_a_draft_that_may_not_guess_is_refused(cli) -> None:
    outcome = cli("run", "smollm2", PROMPT, "--draft", "smollm2", "--no-guesses")
    assert outcome.code == 2 and outcome.err.startswith("assay: draft: ") and "--no-guesses" in outcome.err
    with pytest.raises(RequestError, match="can't guess"):
        assay.load("smollm2", draft="smollm2", guesses=False)


def test_the_help_has_the_fields_defaults_and_bounds() -> None:
    said = {argument.name: argument.help for argument in (*options.ANSWERING, *run.ARGUMENTS)}
    for field in (*RANGES, "top_k"):
        default = Sampling.__dataclass_fields__[field].default
        assert re.search(rf"; default: {default:g}\b", said[f"--{field.replace('_', '-')}"])
    assert f"up to {MOST_CHOICES}" in said["--n"] and f"up to {MOST_TOP}" in said["--top-logprobs"]


def test_several_answers_are_told_apart_and_are_those_of_the_api(cli, loaded) -> None:
    line = ["run", "smollm2", PROMPT, "--max-tokens", "5", "--temperature", "2", "--n", "3", "--seed", "3"]
    asked = {"max_tokens": 5, "temperature": 2.0, "seed": 3, "n": 3}
    answer = loaded.chat([{"role": "user", "content": PROMPT}], **asked)
    texts = [each.text for each in answer.choices]
    assert len(set(texts)) == 3
    headed = [f"--- answer {index} of 3 ---\n{text}\n" for index, text in enumerate(texts, 1)]
    assert cli(*line).out == "".join(headed)
    assert re.fullmatch(r"seed \d+\n", cli(*line[:-2]).err)
    found = json.loads(cli(*line, "--json").out)
    assert [found["text"], *(other["text"] for other in found["others"])] == texts
    raw = cli(*line, "--raw", "--json").out
    assert json.loads(raw)["text"] == loaded.generate(PROMPT, **asked).text


def test_json_has_the_log_probabilities_of_tokens_and_of_their_alternatives(cli, loaded) -> None:
    line = ["run", "smollm2", PROMPT, "--max-tokens", "4", "--top-logprobs", "3"]
    found = json.loads(cli(*line, "--json").out)
    assert len(found["tokens"]) == len(found["logprobs"]) == len(found["top_logprobs"]) == 4
    for token, logprob, places in zip(found["tokens"], found["logprobs"], found["top_logprobs"], strict=True):
        # Greedily the likeliest is taken.
        assert places[0]["token"] == token and places[0]["logprob"] == logprob
        assert [place["logprob"] for place in places] == sorted((p["logprob"] for p in places), reverse=True)
        assert [place["text"] for place in places] == [
            loaded.tokenizer.decode([place["token"]], skip_special=False) for place in places
        ]
    refused = cli(*line)
    assert refused.code == 2 and refused.err.startswith("assay: --top-logprobs: ")


def test_an_adapter_is_loaded_and_asked_for(cli, loaded, monkeypatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("assay.cli.model.load", lambda name, **given: asked.append(given) or loaded)
    outcome = cli("run", "smollm2", PROMPT, "--adapter", "./tuned", "--max-tokens", "2")
    assert asked[0]["adapters"] == {"./tuned": "./tuned"}
    assert outcome.code == 2 and "adapter" in outcome.err, "the model here was loaded without it"
    assert cli("run", "smollm2", PROMPT, "--max-tokens", "2").code == 0 and asked[1]["adapters"] is None


OUT_OF_RANGE = {
    "--temperature": "-1", "--top-k": "9" * 19, "--min-p": "2", "--typical-p": "2", "--top-p": "2",
    "--repetition-penalty": "0", "--presence-penalty": "9", "--frequency-penalty": "9",
    "--logit-bias": "1:999", "--bad-word": "", "--min-tokens": "9" * 19, "--regex": "", "--stop": "",
}  # fmt: skip


@pytest.mark.parametrize("option", OUT_OF_RANGE)
def test_an_error_names_the_option_as_it_is_typed(option: str) -> None:
    values = command("run").read(["m", "p", f"{option}={OUT_OF_RANGE[option]}"])
    with pytest.raises(RequestError) as caught:
        options.sampling(values)
    assert caught.value.place == option


def test_no_option_of_an_answer_is_ignored() -> None:
    """Each is a field of Sampling, or of what `load` takes."""
    known = {*Sampling.__dataclass_fields__, *inspect.signature(assay.load).parameters}
    names = {argument.name.removeprefix("--").replace("-", "_") for argument in options.ANSWERING}
    assert names - known == {"model", "bad_word"}, "the model's name; one of bad_words"
    fields = options.sampling(
        command("run").read(["m", "p", "--ignore-eos", "--bad-word", "x", "--seed", "0"])
    )
    assert fields["ignore_eos"] is True and fields["bad_words"] == ["x"] and fields["seed"] == 0
