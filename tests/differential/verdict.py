"""One case, held against ONNX Runtime."""

from __future__ import annotations

import traceback
from typing import NamedTuple

from onnx import printer

from differential.deviations import deviation
from differential.draw import Draw
from differential.graphs import graph
from differential.models import Drawn, differ, ours, single, theirs
from differential.strategies import FAMILIES


class Verdict(NamedTuple):
    """How a case went: `equal`, `skipped`, `refused` by ONNX Runtime or by both, or a finding."""

    outcome: str
    text: str = ""

    @property
    def finding(self) -> bool:
        return self.outcome not in ("equal", "skipped", "refused")


def judge_node(op: str, version: int, seed: int, wish: str = "") -> Verdict:
    """A drawn node of an operator's version."""
    draw = Draw(op, version, seed, wish)
    call = FAMILIES[op](draw)
    reason = deviation(op, version, call)
    return (
        Verdict("skipped", reason) if reason else judge(single(draw, call), f"{op} {version} {seed} {wish}")
    )


def judge_graph(seed: int) -> Verdict:
    return judge(graph(seed), f"graph {seed}")


def judge(drawn: Drawn, title: str) -> Verdict:
    """Both engines' outputs, or refusals. What ONNX Runtime refuses, ours may run."""
    want = theirs(drawn)
    shapes = {name: f"{array.dtype}{list(array.shape)}" for name, array in drawn.feeds.items()}
    text = " ".join(printer.to_text(drawn.model.graph).split())
    told = f"{title}: {text[:600]} on {shapes}"
    try:
        got = ours(drawn)
    except Exception as error:
        if isinstance(want, str):
            return Verdict("refused", f"by both: {error}")
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())[:400]
        return Verdict("refused by us", f"{type(error).__name__} {said} ({where.name}:{where.lineno}) {told}")
    if isinstance(want, str):
        return Verdict("refused", f"by ONNX Runtime: {want}")
    for at, (a, b) in enumerate(zip(got, want, strict=True)):
        found = differ(a, b, drawn.bound)
        if found:
            return Verdict("different", f"output {at}: {found} {told}")
    return Verdict("equal")
