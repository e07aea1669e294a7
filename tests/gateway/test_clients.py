"""OpenAI's own client, and LangChain's, against a real service; and the library as the oracle of texts."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import openai
import pytest
from pydantic import BaseModel

import assay
from assay.llm.language_model import LanguageModel
from serving.service import Service

COLOUR = [{"role": "user", "content": "Name a colour."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def client(service: Service) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def lm(smollm2_path: Path) -> LanguageModel:
    made = assay.load(smollm2_path, threads=2)
    assert isinstance(made, LanguageModel)
    return made


def test_an_answer_is_the_librarys(client: openai.OpenAI, lm: LanguageModel) -> None:
    for options in (
        {"temperature": 0.0},
        {"temperature": 0.9, "seed": 5, "top_p": 0.9, "presence_penalty": 0.5},
        {"temperature": 1.0, "seed": 6, "stop": ["a"], "logit_bias": {"30": 5.0}, "frequency_penalty": 1.0},
    ):
        got = client.chat.completions.create(
            model="smollm2", messages=COLOUR, max_tokens=24, n=2, logprobs=True, top_logprobs=2, **options
        )
        bias = {int(k): v for k, v in options.get("logit_bias", {}).items()}
        want = lm.chat(COLOUR, max_tokens=24, n=2, top_logprobs=2, **{**options, "logit_bias": bias})
        assert [each.message.content for each in got.choices] == [each.text for each in want.choices]
        assert [each.finish_reason for each in got.choices] == [each.finish_reason for each in want.choices]
        for mine, theirs in zip(got.choices, want.choices, strict=True):
            assert [each.logprob for each in mine.logprobs.content] == pytest.approx(list(theirs.logprobs))
            assert all(len(each.top_logprobs) == 2 for each in mine.logprobs.content)
        assert got.usage.prompt_tokens == want.usage.prompt_tokens


def test_a_stream_has_the_same_text(client: openai.OpenAI) -> None:
    asked = {"model": "smollm2", "messages": COLOUR, "max_tokens": 20, "seed": 3, "n": 2}
    whole = client.chat.completions.create(**asked)
    texts, usage = ["", ""], None
    for chunk in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
        usage = chunk.usage or usage
    assert texts == [choice.message.content for choice in whole.choices]
    assert usage and usage.completion_tokens == whole.usage.completion_tokens


def test_many_ask_at_once(service: Service, client: openai.OpenAI) -> None:
    async def both() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="none") as many:
            answers = await asyncio.gather(
                *(
                    many.completions.create(
                        model="smollm2", prompt=f"Number {n}", max_tokens=8, temperature=0
                    )
                    for n in range(12)
                )
            )
        return [answer.choices[0].text for answer in answers]

    alone = [
        client.completions.create(model="smollm2", prompt=f"Number {n}", max_tokens=8, temperature=0)
        for n in range(12)
    ]
    assert asyncio.run(both()) == [answer.choices[0].text for answer in alone]


def test_completions_of_several_prompts_and_of_tokens(client: openai.OpenAI, lm: LanguageModel) -> None:
    prompts = ["Once upon", "Two plus two is"]
    got = client.completions.create(model="smollm2", prompt=prompts, max_tokens=6, temperature=0, logprobs=1)
    want = lm.generate_batch(prompts, max_tokens=6)
    assert [each.text for each in got.choices] == [each.text for each in want]
    for choice in got.choices:
        starts = choice.logprobs.text_offset
        assert [choice.text[a:].startswith(t) for a, t in zip(starts, choice.logprobs.tokens, strict=True)]
    tokens = lm.tokenizer.encode("Once upon")
    again = client.completions.create(model="smollm2", prompt=tokens, max_tokens=6, temperature=0)
    assert again.choices[0].text == want[0].text
    texts = ["", ""]
    for chunk in client.completions.create(
        model="smollm2", prompt=prompts, max_tokens=6, temperature=0, stream=True
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [each.text for each in want]


def test_answers_are_held_to_a_schema(client: openai.OpenAI) -> None:
    class Person(BaseModel):
        name: str
        age: int

    said = [{"role": "user", "content": "Tom is 7. Give JSON with name and age."}]
    got = client.chat.completions.parse(
        model="smollm2", messages=said, response_format=Person, max_tokens=60, temperature=0
    )
    assert isinstance(got.choices[0].message.parsed, Person)
    got = client.chat.completions.create(
        model="smollm2", messages=said, response_format={"type": "json_object"}, max_tokens=80, seed=1
    )
    if got.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(got.choices[0].message.content), dict)


def test_tools_are_called_and_their_answers_read(client: openai.OpenAI) -> None:
    said: list[dict[str, object]] = [{"role": "user", "content": "What is the weather in Paris?"}]
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        asked = {
            "model": "smollm2",
            "messages": said,
            "tools": [WEATHER],
            "tool_choice": choice,
            "temperature": 0,
        }
        got = client.chat.completions.create(**asked, max_tokens=80)
        call = got.choices[0].message.tool_calls[0]
        assert got.choices[0].finish_reason == "tool_calls" and call.function.name == "get_weather"
        assert "city" in json.loads(call.function.arguments)
        with client.chat.completions.stream(**asked, max_tokens=80) as stream:
            streamed = stream.get_final_completion().choices[0]
        assert streamed.finish_reason == "tool_calls"
        assert [(each.function.name, each.function.arguments) for each in streamed.message.tool_calls] == [
            (each.function.name, each.function.arguments) for each in got.choices[0].message.tool_calls
        ]
    answer = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    said += [got.choices[0].message.model_dump(exclude_none=True), answer]
    got = client.chat.completions.create(
        model="smollm2", messages=said, tools=[WEATHER], tool_choice="none", max_tokens=8
    )
    assert got.choices[0].message.content


def test_responses(client: openai.OpenAI) -> None:
    first = client.responses.create(
        model="smollm2", input="Name a colour.", max_output_tokens=12, temperature=0
    )
    assert first.status == "incomplete" and first.output_text
    told = client.responses.retrieve(first.id)
    assert told.output_text == first.output_text and told.usage == first.usage
    second = client.responses.create(
        model="smollm2", input="Another?", previous_response_id=first.id, max_output_tokens=4, temperature=0
    )
    answered = {"role": "assistant", "content": first.output_text}
    said = [*COLOUR, answered, {"role": "user", "content": "Another?"}]
    chat = client.chat.completions.create(model="smollm2", max_tokens=4, temperature=0, messages=said)
    assert second.output_text == chat.choices[0].message.content
    events = list(
        client.responses.create(
            model="smollm2", input="Name a colour.", max_output_tokens=12, temperature=0, stream=True
        )
    )
    assert [event.sequence_number for event in events] == sorted({event.sequence_number for event in events})
    assert events[-1].response.output_text == first.output_text
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == first.output_text
    middle = deltas[len(deltas) // 2]
    rest = list(
        client.responses.retrieve(events[-1].response.id, stream=True, starting_after=middle.sequence_number)
    )
    assert "".join(e.delta for e in rest if e.type == "response.output_text.delta") == "".join(
        each.delta for each in deltas[deltas.index(middle) + 1 :]
    )
    assert rest[-1].response.output_text == first.output_text


def test_responses_in_the_background(client: openai.OpenAI) -> None:
    made = client.responses.create(
        model="smollm2", input="Tell a long story.", max_output_tokens=2000, background=True, temperature=0.5
    )
    assert made.status in ("queued", "in_progress")
    cancelled = client.responses.cancel(made.id)
    assert cancelled.status == "cancelled"
    assert client.responses.retrieve(made.id).status == "cancelled"


def test_embeddings_are_the_librarys(client: openai.OpenAI) -> None:
    texts = ["a cat", "a dog that barks", "an engine"]
    model = assay.load("minilm", threads=2)
    want = model.embed(texts)
    got = client.embeddings.create(model="minilm", input=texts)
    np.testing.assert_array_equal(np.array([each.embedding for each in got.data], np.float32), want)
    plain = client.embeddings.create(model="minilm", input=texts, encoding_format="float")
    np.testing.assert_array_equal(np.array([each.embedding for each in plain.data], np.float32), want)


def test_models_and_routes(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {"smollm2", "other", "minilm", "either"}
    assert client.models.retrieve("either").id == "either"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")
    got = client.completions.create(model="either", prompt="A", max_tokens=2, temperature=0, user="u")
    assert got.choices[0].text


def test_the_readmes_example(service: Service) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (code,) = re.findall(r"```python\n(from openai.*?)```", readme, re.DOTALL)
    code = code.replace("http://127.0.0.1:8000", service.url)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout


def test_langchain(service: Service) -> None:
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    chat = ChatOpenAI(
        base_url=f"{service.url}/v1", api_key="none", model="smollm2", temperature=0, max_tokens=8
    )
    text = chat.invoke("Name a colour.").content
    assert text == "".join(str(chunk.content) for chunk in chat.stream("Name a colour."))
    vectors = OpenAIEmbeddings(
        base_url=f"{service.url}/v1", api_key="none", model="minilm", check_embedding_ctx_length=False
    )
    assert len(vectors.embed_query("a cat")) == 384
