"""Many more cases than the suite has: `python -m differential.campaign CASES [FIRST SEED [OPERATOR…]]`."""

from __future__ import annotations

import sys
from collections import Counter

from assay.ops.standard import registry
from differential.draw import versions
from differential.strategies import FAMILIES
from differential.verdict import judge_graph, judge_node

WISHES = ("float", "int64", "double", "int32", "uint8", "float16", "bool", "int8", "uint64", "int16")


def main() -> None:
    """Prints each finding, and at the end how many cases of an operator went which way. `graph` among the
    operators stands for whole graphs. What is being run is told on stderr: either engine may end the process.
    """
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    tally = Counter[str]()
    for seed in range(first, first + count):
        for op in sys.argv[3:] or ["graph", *sorted(FAMILIES)]:
            if op != "graph" and registry.find(op) is None:
                continue
            for version in versions(op) if op != "graph" else (0,):
                wish = WISHES[seed % len(WISHES)]
                print(op, version, seed, wish, file=sys.stderr, flush=True)
                verdict = judge_graph(seed) if op == "graph" else judge_node(op, version, seed, wish)
                tally[f"{op} {verdict.outcome}"] += 1
                if verdict.finding:
                    print(*verdict, flush=True)
    for key in sorted(tally):
        print(tally[key], key)


if __name__ == "__main__":
    main()
