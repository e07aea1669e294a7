"""What a kernel's digest depends on: what the kernel imports, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from assay.kernels import digest
from assay.kernels.digest import Sources, of_lines, of_syntax
from houserules.sources import SRC, Source, sources
from houserules.test_floors import imported

KERNELS = [path.stem for path in sorted((SRC / "kernels").glob("*.py")) if "assay.simd" in path.read_text()]


def reached(module: str, known: dict[str, Source]) -> set[str]:
    """The modules of Assay that a module needs, by the imports that the floors are held to."""
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name in known and name not in found:
            found.add(name)
            for _, each in imported(known[name]):
                left += [each, each.rpartition(".")[0]]
    return found


def test_an_edit_changes_the_digests_of_those_that_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {source.module: source for source in sources()}
    needed = {f"{stem}.kernel": reached(f"assay.kernels.{stem}", known) for stem in KERNELS}
    shutil.copytree(SRC, tmp_path / "assay", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digest, "_PACKAGE", tmp_path / "assay")
    for folder in ("kernels", "simd"):
        for path in sorted((tmp_path / "assay" / folder).glob("*.py")):
            before = {name: Sources().digest(name) for name in needed}
            path.write_text(path.read_text() + "# edited\n")
            changed = {name for name in needed if Sources().digest(name) != before[name]}
            everyone = folder == "simd" or path.stem in ("build", "digest")
            module = f"assay.{folder}.{path.stem}".removesuffix(".__init__")
            assert changed == {name for name in needed if everyone or module in needed[name]}, module


def test_some_kernels_need_little() -> None:
    """The oracle of the test above is not empty, nor everything."""
    known = {source.module: source for source in sources()}
    assert "assay.kernels.qtile" in reached("assay.kernels.qgemm", known)
    assert "assay.kernels.qtile" not in reached("assay.kernels.attention", known)


def test_lines_tell_what_the_syntax_says() -> None:
    """What is read from the lines of Assay's own files is what a parser finds, names for names included."""
    for source in sources():
        found: dict[str, set[str]] = {}
        for module, names in of_lines(source.text):
            found.setdefault(module, set()).update(names)
        for module, names in of_syntax(source.text.encode()):
            assert module in found and found[module].issuperset(names), f"{source.module}: {module}"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's package, every module of which ends the process that imports it."""
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "__init__": "from .given import f",
        "kernels": "from digested import helper\ndef g():\n    from .deep.inner import (a, b)",
        "helper": "import os; import digested.further",
        "further": "import digested_beside",
        "given": "",
        "unused": "",
        "deep/__init__": "",
        "deep/inner": "from .. import up\nfrom ..sideways import x\nfrom assay.kernels.share import take",
        "deep/unused": "",
        "up": "",
        "sideways": "",
    }
    for name, text in files.items():
        path = tmp_path / "digested" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\nraise SystemExit\n")
    (tmp_path / "digested_beside.py").write_text("raise SystemExit\n")
    return tmp_path


def test_a_users_kernel_depends_on_its_package_and_on_assay(package: Path) -> None:
    used = {name for name, source in Sources()._used("digested.kernels").items() if source}
    assert "assay.kernels.share" in used
    assert {name for name in used if not name.startswith("assay.")} == {
        "digested", "digested.kernels", "digested.helper", "digested.further", "digested.given",
        "digested.deep.inner", "digested.up", "digested.sideways",
    }  # fmt: skip
    for path in sorted(package.rglob("*.py")):
        before = Sources().digest("digested.kernels:f")
        path.write_text(path.read_text() + "# edited\n")
        same = path.stem in ("unused", "digested_beside") or path.parts[-2:] == ("deep", "__init__.py")
        assert (Sources().digest("digested.kernels:f") == before) == same, path


def test_a_file_is_read_once(package: Path) -> None:
    digest._read.cache_clear()
    for _ in range(2):
        found = Sources()
        digests = {name: found.digest(f"{name}.kernel") for name in KERNELS}
        assert len(set(digests.values())) == len(KERNELS)
    files = [name for name, source in found._found.items() if source]
    assert digest._read.cache_info().misses == len(files)


def test_what_is_not_there_has_a_digest_too() -> None:
    """The builder says what is wrong with it."""
    for name in ("nowhere.kernel", "no_such_package.kernels:f", "no_such_module:f"):
        assert len(Sources().digest(name)) == 24
        assert Sources().size(name) == 0
