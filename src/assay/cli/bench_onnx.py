"""Measure an ONNX model beside ONNX Runtime: outputs first, then times in turn, then where time goes.

Inputs that aren't given are drawn: floats from 0 to 1, integers from 0 to 9. The ratio is the peer's time
over ours, turn by turn: the least, the median, the most. Above 1 is faster. A turn is a rest, one run that
isn't counted, and the median of five.

    assay bench onnx ppocr-det --shape x=1,3,640,640
    assay bench onnx model.onnx --shape ids=1,128 --peer onnxruntime --threads 2 --json
    assay bench onnx silero-vad --shape input=1,576 --shape state=2,1,128 -i sr=16000
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from statistics import median
from typing import TYPE_CHECKING, Any

from assay.cli import machine, options
from assay.cli.arrays import INPUTS, arrays, inputs_of, sizes
from assay.cli.command import NO, Argument, Report, Values
from assay.cli.model import find_graph
from assay.cli.progress import Bars
from assay.cli.text import figures
from assay.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from assay.runtime.model import Model, TensorSpec

    Array = NDArray[np.generic]
    Peer = Callable[[Mapping[str, Array]], dict[str, Array]]
PEERS = ("onnxruntime", "none")
SECONDS = 3.0
"""That are measured, at most, of each side, once there are three turns."""
RUNS = 5
"""Of a turn."""
REST = 0.05
"""Seconds before a turn: after a run a peer's threads spin for a while, on the processors that the other side
then lacks.
"""
ARGUMENTS = (
    options.MODEL,
    options.THREADS,
    options.SHAPES,
    INPUTS,
    Argument("--peer", "what to compare with", "|".join(PEERS), options.one_of(PEERS), "onnxruntime"),
    Argument("--repeats", "turns of each, one after the other", "N", options.whole(1), 10),
    Argument("--seed", "of the inputs", "N", options.whole(0), 0),
    options.JSON,
)


def run(arguments: Values) -> Report:
    from assay import settings
    from assay.runtime.model import Model

    threads = arguments.threads or settings.THREADS.get()
    with Bars() as progress:
        path = find_graph(arguments.model, progress, "assay bench llm")
        model = Model.load(path, threads)
        given = arrays(inputs_of(model), arguments.i or ())
        shapes = sizes(model, arguments.shape or ())
        both = next((name for name in shapes if name in given), None)
        if both is not None:
            raise RequestError("an array has its own sizes", place=f"--shape {both}", got=f"-i {both}=…, too")
        inputs = drawn(model, shapes, arguments.seed, given)
        progress.say("compiling kernels, and the first run")
        ours = model.run(inputs)
    found: dict[str, Any] = {
        "model": arguments.model,
        "conditions": machine.conditions(threads, arguments.seed, repeats=arguments.repeats),
        "shapes": {name: list(array.shape) for name, array in inputs.items()},
    }
    good = True
    if arguments.peer == "none":
        found["ms"] = round(1e3 * median(_seconds(lambda: model.run(inputs), arguments.repeats)), 4)
    else:
        peer, theirs = _onnxruntime(path, threads, inputs)
        found["conditions"]["onnxruntime"] = version("onnxruntime")
        distance = max((_distance(ours[name], value) for name, value in theirs.items()), default=0.0)
        good = distance < 1e-3
        found["correctness"] = {"worst_relative_difference": distance, "within": 1e-3, "good": good}
        found |= _compared(lambda: model.run(inputs), lambda: peer(inputs), arguments.repeats)
    found["profile"] = _profile(model, inputs)
    return Report(found, figures(found), 0 if good else NO)


def drawn(
    model: Model, shapes: Mapping[str, tuple[int, ...]], seed: int, given: Mapping[str, Array]
) -> dict[str, Array]:
    """A model's inputs; what isn't given is drawn. Raises RequestError for a size that is open."""
    import numpy as np

    draw = np.random.default_rng(seed)
    return {
        spec.name: given[spec.name] if spec.name in given else _drawn(spec, shapes.get(spec.name), draw)
        for spec in model.inputs
    }


def _drawn(spec: TensorSpec, sizes: tuple[int, ...] | None, draw: np.random.Generator) -> Array:
    from assay.tensor.dtype import BY_NAME
    from assay.tensor.narrow import numpy_of

    dtype = BY_NAME.get(spec.dtype)
    if dtype is None or dtype.name == "string":
        rule, hint = "an input that can't be drawn", f"-i {spec.name}=…"
        raise RequestError(rule, place=spec.name, want="numbers", got=spec.dtype, hint=hint)
    if sizes is None:
        wanted = ("?",) if spec.shape is None else spec.shape
        sizes = tuple(size for size in wanted if isinstance(size, int))
        if len(sizes) != len(wanted):
            rule, hint = "an input's sizes are open", f"--shape {spec.name}=1,…"
            want = f"[{', '.join(map(str, wanted))}]"
            raise RequestError(rule, place=spec.name, want=want, got="none given", hint=hint)
    if dtype.kind == "float":
        return draw.random(sizes).astype(numpy_of(dtype))
    return draw.integers(0, 2 if dtype.name == "bool" else 10, sizes).astype(numpy_of(dtype))


def _onnxruntime(path: Path, threads: int, inputs: Mapping[str, Array]) -> tuple[Peer, dict[str, Array]]:
    """The peer, and what it makes of the inputs. Raises RequestError where it can't run the model."""
    try:
        import onnxruntime as peer
    except ImportError:
        hint = "pip install onnxruntime, or --peer none"
        raise RequestError("the peer isn't installed", place="--peer", got="onnxruntime", hint=hint) from None
    settings = peer.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(names, session.run(None, dict(inputs)), strict=True))

    try:
        session = peer.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        return run, run(inputs)
    except Exception as error:  # its own, which have no common base
        rule, got = "the peer can't run this model", str(error)[:300]
        raise RequestError(rule, place="--peer", got=got, hint="--peer none") from error


def _distance(ours: object, theirs: object) -> float:
    """The greatest difference over the greatest magnitude, or over 0.001 where all are smaller: outputs near
    zero differ by their inputs' rounding. Infinity where one is NaN alone, and of other texts.
    """
    import numpy as np

    if isinstance(ours, list | dict) and isinstance(theirs, list | dict):
        both = [[*each.values()] if isinstance(each, dict) else each for each in (ours, theirs)]
        return max(map(_distance, *both), default=0.0) if len(both[0]) == len(both[1]) else np.inf
    if isinstance(ours, str) or (isinstance(ours, np.ndarray) and ours.dtype.hasobject):
        return 0.0 if np.array_equal(np.asarray(ours), np.asarray(theirs)) else np.inf
    left, right = (np.asarray(each, np.float64) for each in (ours, theirs))
    if not np.array_equal(np.isnan(left), np.isnan(right)):
        return np.inf
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.nan_to_num(left) - np.nan_to_num(right))
    return float(np.max(apart, initial=0.0) / np.max(np.abs(np.nan_to_num(right)), initial=1e-3))


def _seconds(work: Callable[[], object], repeats: int) -> list[float]:
    found: list[float] = []
    while len(found) < repeats and (len(found) < 3 or sum(found) < SECONDS):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def _turn(work: Callable[[], object]) -> float:
    time.sleep(REST)
    work()
    return median(_seconds(work, RUNS))


def _compared(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> dict[str, object]:
    """Both in turn: what the machine gives changes while others share it."""
    pairs: list[tuple[float, float]] = []
    while len(pairs) < repeats and (len(pairs) < 3 or RUNS * sum(map(sum, pairs)) < 2 * SECONDS):
        pairs.append((_turn(ours), _turn(theirs)))
    ratios = sorted(other / own for own, other in pairs)
    return {
        "ms": round(1e3 * median(own for own, _ in pairs), 4),
        "peer_ms": round(1e3 * median(other for _, other in pairs), 4),
        "ratio": {
            "least": round(ratios[0], 3),
            "median": round(median(ratios), 3),
            "most": round(ratios[-1], 3),
        },
    }


def _profile(model: Model, inputs: Mapping[str, Array]) -> list[dict[str, object]]:
    """Of each kind of call also the share of this machine's limit: of operations, or of the caches' bytes."""
    limits = machine.limits(model.program.store.device)
    spent = model.profile(inputs)
    total = sum(each.seconds for each, _, _ in spent) or 1.0
    return [
        {
            "operators": each.kind[0][:60],
            "kernel": each.kind[1],
            "calls": each.launches,
            "ms": round(1e3 * each.seconds, 4),
            "share": round(each.seconds / total, 3),
            "of_limit": round(max(done / limits.float32, moved / limits.cache) / each.seconds, 3),
        }
        for each, done, moved in spent[:20]
    ]
