"""Writes a page for each operator out of its record: `PYTHONPATH=tests python tests/contracts.py`."""

from __future__ import annotations

from pathlib import Path

from assay.ops import page, registry
from assay.ops.standard import page as standard
from assay.ops.standard import registry as graphs

FOLDER = Path(__file__).parents[1] / "docs" / "contracts"
HEAD = """# Contracts

What each operator promises, a page each, out of the records that the checker, the kernels and the tests read:
`PYTHONPATH=tests python tests/contracts.py` writes them anew, and a test holds them to be current.

"""


def pages() -> dict[str, str]:
    """The text of each file in the folder."""
    found = {f"{each.name.lower()}.md": standard.page(each) for each in graphs.all_definitions()}
    inner = {f"language-models/{each.name}.md": page.page(each) for each in registry.all_operators()}
    lists = (("Operators of ONNX", found), ("Operators of language models", inner))
    index = HEAD + "\n\n".join(
        f"## {title}\n\n"
        + "\n".join(f"- [{text.split(chr(10), 1)[0][2:]}]({name})" for name, text in files.items())
        for title, files in lists
    )
    return {**found, **inner, "README.md": index + "\n"}


def main() -> None:
    """Write all pages, and take away those of operators that there aren't any more."""
    texts = pages()
    for path in FOLDER.rglob("*.md"):
        if path.relative_to(FOLDER).as_posix() not in texts:
            path.unlink()
    for name, text in texts.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
