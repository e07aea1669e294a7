"""A child that prints the SHA-256 of the outputs of each case as JSON; the cases lie in the folder given."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from assay.runtime.cpu import Cpu
from conformance.bits import bits, given, prepared
from conformance.cases import folder_case


def main() -> None:
    device = Cpu(2)
    digests = {}
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        case = folder_case(folder)
        found = prepared(case.model)
        assert found
        made = found.run(given(found.graph, case.data[0][0]), device)
        digests[case.name] = hashlib.sha256(repr(list(map(bits, made))).encode()).hexdigest()
    print(json.dumps(digests))


if __name__ == "__main__":
    main()
