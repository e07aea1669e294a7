"""NUMA: the list of nodes, and what is recorded when memory can't be bound."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from assay.errors import HardwareFault
from assay.tensor import numa
from assay.tensor.pool import Pool


@pytest.mark.parametrize(
    ("text", "nodes"), [("0", (0,)), ("0-1", (0, 1)), ("0-2,5,7-8\n", (0, 1, 2, 5, 7, 8))]
)
def test_the_systems_list_is_read(tmp_path: Path, text: str, nodes: tuple[int, ...]) -> None:
    (tmp_path / "online").write_text(text)
    assert numa.online_nodes(tmp_path / "online") == nodes


def test_a_system_without_a_list_has_one_node(tmp_path: Path) -> None:
    assert numa.online_nodes(tmp_path / "online") == (0,)


def test_one_node_needs_no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "online_nodes", lambda: (0,))
    assert Pool(1 << 20, node=0).numa == "off: the machine has one node"
    assert Pool(1 << 20).numa == "off: not asked for"


def test_a_node_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "online_nodes", lambda: (0, 1))
    with pytest.raises(HardwareFault) as error:
        Pool(1 << 20, node=2)
    assert (error.value.want, error.value.got) == ("one of (0, 1)", "2")


def test_where_there_are_more_nodes_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "online_nodes", lambda: (0, 1))
    pool = Pool(1 << 20, node=0)
    # Node 0 exists everywhere, but a sandbox may forbid the call; then the reason is recorded.
    assert pool.numa == "on" or pool.numa.startswith("off: ")
    pool.allocate(4096, owner="x").array(np.uint8, (4096,))[:] = 1


@pytest.mark.skipif(platform.system() != "Linux", reason="a Linux system call")
def test_the_systems_refusal_is_recorded() -> None:
    # An address that isn't the start of a page: EINVAL everywhere (or EPERM, ENOSYS in a sandbox).
    assert numa.mbind(1, 4096, 0).startswith("off: ")
