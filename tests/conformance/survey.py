"""How many of the cases pass, and why others don't: `python -m conformance.survey [MODULE…]`."""

from __future__ import annotations

import sys
import traceback
from collections import Counter

from conformance.cases import modules, node_cases, run


def main() -> None:
    passed, reasons = 0, Counter[str]()
    total = 0
    for module in sys.argv[1:] or modules():
        for case in node_cases(module):
            total += 1
            try:
                run(case)
                passed += 1
            except Exception as error:
                lines = [line for line in str(error).splitlines() if line.strip()]
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{type(error).__name__} {' '.join(lines[:4])[:160]} ({where.name}:{where.lineno})"
                reasons[text] += 1
                print(f"{module} {case.name}: {text}", flush=True)
    print(f"{passed} of {total}")


if __name__ == "__main__":
    main()
