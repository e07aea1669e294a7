"""How a model is loaded: every option is held to its range, before anything else happens."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.errors import RequestError
from assay.llm.options import Options
from assay.llm.request import Sampling
from assay.load import Progress
from llm import tiny

RANGES = {
    "context": (2, 2**20),
    "cache_tokens": (1, 2**31 - 2**16),
    "budget": (1, 4096),
    "threads": (1, 1024),
}


@pytest.mark.parametrize("name", RANGES)
def test_numbers_have_ranges(name: str) -> None:
    low, high = RANGES[name]
    for value in (low, high):
        assert getattr(Options(**{name: value}), name) == value  # type: ignore[arg-type]
    for wrong in (low - 1, high + 1, 0, -5, True, False, 64.0, "64", np.int64(64), float("nan")):
        with pytest.raises(RequestError) as caught:
            Options(**{name: wrong})  # type: ignore[arg-type]
        assert caught.value.place == name
        assert caught.value.want == f"an integer from {low} to {high}"
        assert caught.value.got == repr(wrong)


@pytest.mark.parametrize("wrong", ["int4", "", None, 8, "INT8", ["int8"]])
def test_modes_are_listed(wrong: object) -> None:
    with pytest.raises(RequestError) as caught:
        Options(wrong)  # type: ignore[arg-type]
    assert (caught.value.place, caught.value.want) == ("activations", "int8 or float32")
    assert caught.value.got == repr(wrong)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            field.name: st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=2))
            for field in fields(Options)
        },
    )
)
def test_any_options_are_refused_by_name_or_within_their_ranges(given: dict[str, object]) -> None:
    try:
        options = Options(**given)  # type: ignore[arg-type]
    except RequestError as error:
        assert error.place in given and error.got == repr(given[error.place])
        return
    for name, (low, high) in RANGES.items():
        value = getattr(options, name)
        assert value is None or (type(value) is int and low <= value <= high)


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("not this one")


@pytest.mark.parametrize("wrong", [10**5000, Unshowable(), [0] * 10**5], ids=["long", "unshowable", "many"])
@pytest.mark.parametrize("of", [Options, Sampling])
def test_a_value_that_can_not_be_shown_is_refused_by_name(of: type, wrong: object) -> None:
    for field in fields(of):
        if field.name == "adapter":
            continue  # the engine, which knows those that there are, looks at it
        with pytest.raises(RequestError) as caught:
            of(**{field.name: wrong})
        assert caught.value.place.startswith(field.name) and len(str(caught.value)) < 1000


@pytest.mark.parametrize("wrong", [None, True, 3, 1.5, b"smollm2", ["smollm2"], {}, object(), Unshowable()])
def test_only_strings_and_paths_are_names_of_models(wrong: object) -> None:
    with pytest.raises(RequestError) as caught:
        assay.load(wrong)  # type: ignore[arg-type]
    assert (caught.value.place, caught.value.got) == ("name", type(wrong).__name__)


@pytest.mark.parametrize("wrong", [True, 0, "", {}, print, Progress])
def test_only_a_progress_hears_of_progress(wrong: object) -> None:
    with pytest.raises(RequestError) as caught:
        assay.load("smollm2", progress=wrong)  # type: ignore[arg-type]
    assert (caught.value.place, caught.value.got) == ("progress", type(wrong).__name__)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another kind")
def test_a_small_address_space_is_shared_out(tmp_path: Path) -> None:
    """4 GB of it: less than the memory of a machine that this runs on."""
    path = tiny.write(tmp_path / "m.gguf")
    assay.load(path, threads=2).generate("abc", max_tokens=3)  # compiles what isn't yet
    answer = f"import assay; assay.load({str(path)!r}, threads=2).generate('abc', max_tokens=3)"
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)); {answer}"
    subprocess.run([sys.executable, "-c", limited], check=True, timeout=60)


def test_options_are_looked_at_before_the_model() -> None:
    for options in ({"context": 0}, {"budget": 0}, {"cache_tokens": -9}, {"threads": 0}, {"threads": True}):
        with pytest.raises(RequestError) as caught:
            assay.load("no such model", **options)  # type: ignore[arg-type]
        assert caught.value.place in options


def test_a_context_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "m.gguf")
    with pytest.raises(RequestError) as caught:
        assay.load(path, threads=1, context=129)
    assert (caught.value.place, caught.value.want) == ("context", "at most 128, the model's own")
    assert assay.load(path, threads=1, context=128).context == 128


def test_what_is_asked_for_is_what_is_given(tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "m.gguf")
    engine = assay.load(path, threads=1, context=2, cache_tokens=65, budget=3).engine
    assert (engine.context, engine.pages.count, engine.budget) == (2, 2, 3)
    engine = assay.load(path, threads=1).engine
    assert (engine.context, engine.budget) == (128, 512)
    lm = assay.load(path, threads=1, context=128, budget=4096)
    together = [lm.engine.add([4] * 100, Sampling(max_tokens=2)) for _ in range(41)]
    lm.engine.step()
    assert sum(sequence.computed for sequence in together) == 4096
