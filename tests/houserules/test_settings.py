"""Every variable is in the settings table, and nothing else reads the environment."""

from __future__ import annotations

import ast
import re

from assay import settings
from houserules.sources import REPOSITORY, Source, planted, sources

VARIABLE = re.compile(r"\bASSAY_[A-Z0-9_]*[A-Z0-9]")


def unlisted(text: str) -> set[str]:
    return set(VARIABLE.findall(text)) - {setting.name for setting in settings.ALL}


def readers(source: Source) -> list[str]:
    """Where a file touches the environment: os.environ, os.environb, os.getenv, or an import of them."""
    names = ("environ", "environb", "getenv", "getenvb", "putenv", "unsetenv")
    found = []
    for node in ast.walk(source.tree):
        attribute = isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node.value) == "os"
        imported = isinstance(node, ast.ImportFrom) and any(alias.name in names for alias in node.names)
        if attribute or imported:
            found.append(f"{source.module}, line {node.lineno}: {ast.unparse(node)}")
    return found


def test_every_variable_is_in_the_table() -> None:
    texts = {source.module: source.text for source in sources()} | {
        "README": (REPOSITORY / "README.md").read_text()
    }
    assert {name: unlisted(text) for name, text in texts.items() if unlisted(text)} == {}


def test_nothing_but_the_settings_reads_the_environment() -> None:
    assert [
        line for source in sources() if source.module != "assay.settings" for line in readers(source)
    ] == []


def test_the_table_lists_each_setting_of_the_module_once() -> None:
    named = [value for value in vars(settings).values() if isinstance(value, settings.Setting)]
    assert len(settings.ALL) == len(set(settings.ALL)) == len(named)
    assert set(settings.ALL) == set(named)
    for setting in settings.ALL:
        assert VARIABLE.fullmatch(setting.name)
        assert setting.help and setting.want


def test_the_checkers_see() -> None:
    assert unlisted('f("ASSAY_THREADS", "ASSAY_NO_SUCH")') == {"ASSAY_NO_SUCH"}
    for text in ("import os\nos.environ['X']", "import os\nos.getenv('X')", "from os import environ"):
        assert len(readers(planted("assay.x", text))) == 1
    assert readers(planted("assay.x", "import os\nos.getpid()")) == []
