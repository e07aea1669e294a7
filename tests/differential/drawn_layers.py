"""Normalisations, recurrent layers, and sizes of images."""

from __future__ import annotations

import numpy as np

from differential.draw import Array, Bound, Call, Draw, Known
from differential.families import family, plain, vector

# Normalisations


@family("LpNormalization")
def lp_norm(d: Draw) -> Call:
    x = plain(d, (shape := d.shape(1)), d.type())
    return Call([x], {"axis": d.axis(len(shape)), "p": d.pick(1, 2)}, bound=Bound(32, 0, True))


@family("LRN")
def lrn(d: Draw) -> Call:
    attributes: dict[str, object] = {"size": d.pick(1, 3, 5)}
    choices = {"alpha": (0.1, 1.0), "beta": (0.5, 0.75, 1.0), "bias": (1.0, 2.0)}
    attributes |= {key: float(d.pick(*each)) for key, each in choices.items() if d.chance(0.5)}
    return Call(
        [plain(d, (d.pick(1, 2), d.size(1), *(d.size(1) for _ in "hw")), d.type())],
        attributes,
        bound=Bound(64, 0, True),
    )


@family("InstanceNormalization GroupNormalization MeanVarianceNormalization")
def grouped(d: Draw) -> Call:
    dtype = d.type("T", "f")
    groups, each = d.integer(1, 3), d.integer(1, 3)
    channels = groups * each
    if d.op == "MeanVarianceNormalization":
        x = plain(d, (2, channels, d.size(2), d.size(2)), dtype)
        axes = (
            {"axes": d.axes(4, 1) if d.version >= 13 else sorted(a % 4 for a in d.axes(4, 1))}
            if d.chance(0.6)
            else {}
        )
        # The variance is a difference of squares' means: what is lost is as much more as they are greater.
        over = tuple(axes.get("axes", (0, 2, 3)))
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            lost = np.nan_to_num(np.mean(wide**2, over, keepdims=True) / np.var(wide, over, keepdims=True))
        return Call([x], axes, bound=Bound(256, np.broadcast_to(4 + lost, x.shape), True))
    x = plain(d, (d.pick(1, 2), channels, d.size(2), *d.shape(0, 2, 1)), dtype)
    attributes: dict[str, object] = {"epsilon": float(d.pick(1e-5, 0.01))} if d.chance(0.6) else {}
    many = channels
    if d.op == "GroupNormalization":
        attributes["num_groups"] = groups
        many = groups if d.version < 21 else channels
    pair = [Known(d.data((many,), dtype, low=-2, high=2)) for _ in "sb"]
    return Call([x, *pair], attributes, bound=Bound(1024, 8, True))


@family("LayerNormalization RMSNormalization")
def rows(d: Draw) -> Call:
    dtype, shape = d.type("T", "f"), d.shape(1, 4, 1)
    axis = d.axis(len(shape))
    attributes: dict[str, object] = {"axis": axis} if d.chance(0.7) else {}
    attributes |= {"epsilon": 0.01} if d.chance(0.5) else {}
    inner = shape[attributes.get("axis", -1) :]
    inputs = [plain(d, shape, dtype), Known(d.data(inner, dtype, low=-2, high=2))]
    if d.op == "LayerNormalization" and d.chance(0.6):
        inputs.append(Known(d.data(inner, dtype, low=-2, high=2)))
    outputs = d.pick(1, 1, 3) if d.op == "LayerNormalization" else 1
    return Call(inputs, attributes, outputs, Bound(2048, 256, True))


@family("BatchNormalization")
def batch(d: Draw) -> Call:
    dtype = d.type("T", "f")
    channels = d.size(1)
    x = plain(d, (d.size(), channels, *d.shape(0, 3, 1)), dtype)
    attributes: dict[str, object] = {"epsilon": float(d.pick(1e-5, 0.01))} if d.chance(0.6) else {}
    many = (channels,)
    if d.version < 9 and d.chance(0.5):
        attributes["spatial"] = d.pick(0, 1)
        many = (channels,) if attributes["spatial"] else x.shape[1:]
    values = [Known(d.data(many, dtype, low=-2, high=2)) for _ in "sbm"]
    values.append(Known(d.data(many, dtype, low=0.1, high=3)))
    outputs = 1
    if d.version >= 14 and d.chance(0.4):
        attributes |= {"training_mode": 1, "momentum": 0.7}
        outputs = 3
    return Call([x, *values], attributes, outputs, Bound(1024, 32, True))


# Recurrent layers


@family("RNN GRU LSTM")
def recurrent(d: Draw) -> Call:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[d.op]
    steps, rows, inside, hidden = d.integer(1, 4), d.integer(1, 3), d.integer(1, 4), d.integer(1, 5)
    direction = d.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1

    def value(*shape: int) -> Array:
        return d.data(shape, np.float32, low=-0.7, high=0.7)

    lengths = d.random.integers(1, steps + 1, rows).astype(np.int32) if d.chance(0.4) else None
    inputs: list[Array | Known | None] = [
        value(steps, rows, inside), Known(value(ways, gates * hidden, inside)),
        Known(value(ways, gates * hidden, hidden)),
        Known(value(ways, 2 * gates * hidden)) if d.chance(0.6) else None, lengths,
        value(ways, rows, hidden) if d.chance(0.6) else None,
    ]  # fmt: skip
    attributes: dict[str, object] = {"hidden_size": hidden, "direction": direction}
    if d.op == "LSTM":
        inputs.append(value(ways, rows, hidden) if d.chance(0.6) else None)
        inputs.append(Known(value(ways, 3 * hidden)) if d.chance(0.3) else None)
        attributes |= {"input_forget": 1} if d.chance(0.2) else {}
    if d.op == "GRU" and d.chance(0.5):
        attributes["linear_before_reset"] = d.pick(0, 1)
    if d.chance(0.2):
        attributes["clip"] = 0.5
    return Call(inputs, attributes, 3 if d.op == "LSTM" else 2, Bound(256, 1, True))


# Sizes


@family("Upsample")
def upsample(d: Draw) -> Call:
    mode = d.pick("nearest", "linear")
    shape = (d.pick(1, 2), d.integer(1, 3), d.integer(1, 5), d.integer(1, 5))
    scales = [1.0, 1.0, d.pick(1.0, 1.5, 2.0, 3.0), d.pick(1.0, 2.0, 2.5)]
    x = d.data(shape, d.type("T", "f"), low=-3, high=3)
    if d.version < 9:
        return Call([x], {"mode": mode, "scales": scales}, bound=Bound(64, 3))
    return Call([x, Known(np.array(scales, np.float32))], {"mode": mode}, bound=Bound(64, 3))


@family("Resize")
def resize(d: Draw) -> Call:
    mode = d.pick("nearest", "linear", "cubic") if d.version >= 11 else d.pick("nearest", "linear")
    shape = (d.pick(1, 2), d.integer(1, 3), d.integer(1, 6), d.integer(1, 6))
    x = d.data(shape, d.type("T1" if d.version >= 11 else "T", "f"), low=-3, high=3)
    scales = [1.0, 1.0, d.pick(0.5, 0.6, 1.0, 1.5, 2.0), d.pick(0.5, 0.8, 1.0, 2.0, 2.5)]
    known = Known(np.array(scales, np.float32))
    if d.version < 11:
        return Call([x, known], {"mode": mode}, bound=Bound(64, 3))
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    modes += (
        ["half_pixel_symmetric"]
        if d.version >= 19
        else ["tf_half_pixel_for_nn"]
        if d.version < 13 and mode == "nearest"
        else []
    )
    attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": d.pick(*modes)}
    if mode == "nearest":
        choices = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attributes["nearest_mode"] = d.pick(
            *choices[::2]
            if attributes["coordinate_transformation_mode"] == "tf_half_pixel_for_nn"
            else choices
        )
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": -0.5} if d.chance(0.4) else {}
        attributes |= {"exclude_outside": 1} if d.chance(0.4) else {}
    if d.version >= 18 and mode != "nearest" and d.chance(0.4):
        attributes["antialias"] = 1
    if d.chance(0.4):
        sizes = [shape[0], shape[1], d.integer(1, 9), d.integer(1, 9)]
        inputs = [x, None if d.version >= 13 else np.zeros(0, np.float32), None, vector(sizes)]
        if d.version < 13:
            inputs[2] = Known(np.zeros(0, np.float32))
            inputs[1] = Known(np.zeros(0, np.float32))
        if d.version >= 18 and d.chance(0.6):
            inputs[3] = vector(sizes[2:])
            attributes |= {"axes": [2, 3]}
            attributes |= (
                {"keep_aspect_ratio_policy": d.pick("stretch", "not_larger", "not_smaller")}
                if d.chance(0.5)
                else {}
            )
        return Call(inputs, attributes, bound=Bound(256, 9))
    roi = None if d.version >= 13 else Known(np.zeros(0, np.float32))
    return Call([x, roi, known], attributes, bound=Bound(256, 9))
