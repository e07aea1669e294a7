"""Recurrent layers: a matrix product for all steps' inputs, then a product and a kernel for each step."""

from __future__ import annotations

from collections.abc import Sequence

from assay.graph.dim import Dim
from assay.kernels.sizes import ACTIVATIONS
from assay.ops.operator import Address, Exactness
from assay.ops.standard.compose import Composer, Value
from assay.ops.standard.definition import FLAG, POSITIVE, one_of
from assay.ops.standard.emit import Emitter, bits_of
from assay.ops.standard.linear import product
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Site
from assay.tensor.dtype import F32

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
NUMBERS = {
    "LeakyRelu": (0.01, 0.0), "ThresholdedRelu": (1.0, 0.0), "HardSigmoid": (0.2, 0.5), "Elu": (1.0, 0.0),
    "Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0),
}  # fmt: skip
"""Alpha and beta of activations where a node doesn't give them."""
TAKEN = {"Affine": 2, "ScaledTanh": 2, "HardSigmoid": 2, "LeakyRelu": 1, "ThresholdedRelu": 1, "Elu": 1}
"""How many numbers of activation_alpha and activation_beta belong to an activation: both, or alpha alone."""


def _rule(site: Site) -> Sequence[Made]:
    op = site.definition.name
    if not (site.want_rank(0, 3) & site.want_rank(1, 3) & site.want_rank(2, 3)):
        return [None]
    gates, layout = GATES[op], site.integer("layout")
    steps, batch, inputs = site.shape(0)
    if layout:
        steps, batch = batch, steps
    directions = Dim.of(2 if site.text("direction") == "bidirectional" else 1)
    hidden = site.shape(2)[2]
    given = site["hidden_size"]
    if isinstance(given, int):
        hidden = site.agree(Dim.of(given), hidden, "hidden_size and R", 2)
    last = (batch, directions, hidden) if layout else (directions, batch, hidden)
    wanted = {
        1: (directions, hidden * gates, inputs), 2: (directions, hidden * gates, hidden),
        3: (directions, hidden * (2 * gates)), 4: (batch,), 5: last, 6: last, 7: (directions, hidden * 3),
    }  # fmt: skip
    for index, shape in wanted.items():
        site.match(index, *shape, hint=f"[{', '.join(map(str, shape))}] is wanted")
    names = site.attributes["activations"]
    count = len(DEFAULTS[op]) * int(str(directions))
    if isinstance(names, tuple):
        rule, text = "attribute activations: wrong number", f"{count} or more"
        site.require(len(names) >= count, rule, want=text, got=len(names))
        strange = [name for name in names if str(name).lower() not in map(str.lower, ACTIVATIONS)]
        want = ", ".join(ACTIVATIONS)
        site.require(not strange, "attribute activations: none of these", want=want, got=strange)
    whole = (batch, steps, directions, hidden) if layout else (steps, *last)
    return [whole, last, last][: len(site.node.outputs)]


def _activations(site: Site) -> list[list[int]]:
    """Of each direction: code, alpha and beta of each activation."""
    op = site.definition.name
    directions = 2 if site.text("direction") == "bidirectional" else 1
    names = site.attributes["activations"] or DEFAULTS[op] * directions
    assert isinstance(names, tuple)
    numbers = [list(site.numbers(f"activation_{key}")) for key in ("alpha", "beta")]
    words: list[int] = []
    for name in names:
        plain = next(each for each in ACTIVATIONS if each.lower() == str(name).lower())
        pair = list(NUMBERS.get(plain, (0.0, 0.0)))
        for which in range(TAKEN.get(plain, 0)):
            if numbers[which]:
                pair[which] = numbers[which].pop(0)
        words += [ACTIVATIONS.index(plain), *(bits_of(each, F32) for each in pair)]
    each = 3 * len(DEFAULTS[op])
    return [words[each * direction : each * (direction + 1)] for direction in range(directions)]


class _Layer:
    """One node's calls."""

    def __init__(self, site: Site, emitter: Emitter) -> None:
        self.site = site
        self.emitter = emitter
        self.composer = composer = Composer(site, emitter)
        self.op = site.definition.name
        self.gates = GATES[self.op]
        x = composer.input(0)
        self.x = composer.moved(x, (1, 0, 2)) if site["layout"] else x
        self.steps, self.batch, self.inputs = self.x.sizes
        self.hidden = site.sizes(2)[2]
        self.directions = site.sizes(2)[0]
        self.bound = bits_of(site.number("clip") if site["clip"] else 0.0, F32)
        self.lens: Address | int = emitter.input(4) if site.has(4) else 0

    def run(self) -> None:
        """All directions, then the outputs in their order."""
        composer, names = self.composer, self.site.node.outputs
        outputs = composer.new(F32, self.steps, self.directions, self.batch, self.hidden)
        states = [composer.new(F32, self.directions, self.batch, self.hidden) for _ in range(2)]
        for direction, activations in enumerate(_activations(self.site)):
            backwards = direction == 1 or self.site.text("direction") == "reverse"
            self.direction(direction, backwards, activations, outputs, states)
        layout = bool(self.site["layout"])
        for index, (value, order) in enumerate(
            zip((outputs, *states), ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2)), strict=True)
        ):
            if index < len(names) and names[index]:
                to = composer.output(F32, index)
                composer.moved(value, order if layout else range(len(order)), to)

    def part(self, index: int, direction: int) -> Value | None:
        """One direction's part of an input."""
        if not self.site.has(index):
            return None
        whole = self.composer.input(index)
        if index in (5, 6) and self.site["layout"]:
            whole = self.composer.moved(whole, (1, 0, 2))
        part = self.composer.slid(whole, 0, direction, 1)
        return part.shaped(*whole.sizes[1:])

    def times(self, x: Value, w: Value) -> Value:
        """x · wᵀ."""
        (m, k), n = x.sizes, w.sizes[0]
        y = self.composer.new(F32, m, n)
        fixed = w.name in self.emitter.fixed
        product(self.emitter, F32, x.address, w.address, y.address, (m, k, n), (k, 1, k), (), fixed)
        return y

    def direction(
        self,
        direction: int,
        backwards: bool,
        activations: Sequence[int],
        outputs: Value,
        states: Sequence[Value],
    ) -> None:
        composer, n, batch = self.composer, self.hidden, self.batch
        w, r, b, p = (self.part(index, direction) for index in (1, 2, 3, 7))
        assert w and r
        size = self.gates * n
        gates = self.times(self.x.shaped(self.steps * batch, self.inputs), w)
        inner = None
        if b:
            own, other = (composer.slid(b, 0, start, size) for start in (0, size))
            if self.op == "GRU" and self.site["linear_before_reset"]:
                # The recurrent bias of the last gate is reset together with its product.
                inner = composer.slid(other, 0, 2 * n, n)
                kept = composer.new(F32, size)
                composer.padded(composer.slid(other, 0, 0, 2 * n), kept, 0, 0)
                other = kept
            gates = composer.map("add", gates, composer.map("add", own, other))
        h, c = self.part(5, direction), self.part(6, direction)
        h = h or self.zeros()
        c = (c or self.zeros()) if self.op == "LSTM" else h
        for step in range(self.steps)[:: -1 if backwards else 1]:
            here = composer.slid(gates, 0, batch * step, batch) if self.steps > 1 else gates
            h, c, y = self.step(here, r, p, h, c, inner, step, activations)
            composer.put(y.shaped(1, 1, batch, n), outputs, step, direction, 0, 0)
        for value, to in zip((h, c), states, strict=True):
            composer.put(value.shaped(1, batch, n), to, direction, 0, 0)

    def zeros(self) -> Value:
        state = self.composer.new(F32, self.batch, self.hidden)
        self.composer.fill(state, 0)
        return state

    def step(
        self, gates: Value, r: Value, p: Value | None, h: Value, c: Value, inner: Value | None, step: int,
        activations: Sequence[int],
    ) -> tuple[Value, Value, Value]:  # fmt: skip
        """The states after a step, and its output."""
        composer, batch, n = self.composer, self.batch, self.hidden
        after, cell, y = (composer.new(F32, batch, n) for _ in range(3))
        recurrent = self.times(h, r)
        tail: list[object] = [batch, n, step, self.lens, self.bound]
        if self.op == "RNN":
            words: list[object] = [gates, recurrent, h, after, y, *tail, *activations]
            composer.call("recurrent.rnn", words, writes=[after, y])
            return after, after, y
        if self.op == "LSTM":
            words = [gates, recurrent, p, h, c, after, cell, y, *tail, self.site.integer("input_forget")]
            composer.call("recurrent.lstm", [*words, *activations], writes=[after, cell, y])
            return after, cell, y
        reset: Value | None = None
        if not self.site["linear_before_reset"]:
            product_of = composer.new(F32, batch, n)
            words = [gates, recurrent, h, product_of, batch, n, self.bound, *activations[:3]]
            composer.call("recurrent.gru_reset", words, writes=[product_of])
            reset = self.times(product_of, composer.slid(r, 0, 2 * n, n))
        words = [gates, recurrent, reset, inner, h, after, y, *tail, *activations]
        composer.call("recurrent.gru", words, writes=[after, y])
        return after, after, y


_FORMULAS = {
    "RNN": "H = f(X Wᵀ + H R ᵀ + Wb + Rb), step by step",
    "GRU": "z = f(X Wzᵀ + H Rzᵀ + b), r = f(X Wrᵀ + H Rrᵀ + b), h = g(X Whᵀ + (r H) Rhᵀ + b) or with "
    "linear_before_reset g(X Whᵀ + r (H Rhᵀ + Rbh) + Wbh), H = (1 − z) h + z H",
    "LSTM": "i = f(X Wiᵀ + H Riᵀ + Pi C + b), f likewise, c = g(X Wcᵀ + H Rcᵀ + b), C = f C + i c, "
    "o = f(X Woᵀ + H Roᵀ + Po C + b), H = o h(C)",
}
for _op, _formula in _FORMULAS.items():
    define(
        _op, _rule, summary="A recurrent layer over time, forward, in reverse or both.", formula=_formula,
        shapes="Y [steps, directions, batch, hidden], the last states [directions, batch, hidden]; "
        "batch first "
        "with layout 1.",
        ranges={
            "direction": one_of("forward", "reverse", "bidirectional"), "hidden_size": POSITIVE,
            "layout": FLAG,
            **({"input_forget": FLAG} if _op == "LSTM" else {}),
            **({"linear_before_reset": FLAG} if _op == "GRU" else {}),
        },
        lower=lambda site, emitter: _Layer(site, emitter).run(),
        exactness=Exactness("ulp", 4096, "of magnitudes: errors go from step to step"),
        numerics=("Products as MatMul's; biases are added to each other, then to the inputs' product.",),
        kernels=(("matmul or gemm, and recurrent." + _op.lower(), "always, by way of float32"),),
    )  # fmt: skip
