"""What the ONNX standard's own schemas say of an operator's version: ports, types and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from assay.graph.graph import AttributeValue, ValueType
from assay.tensor.dtype import BY_NAME, MAP, OPTIONAL, PLAIN, SEQUENCE, DType

if TYPE_CHECKING:
    import onnx

DEFAULT, ML = "ai.onnx", "ai.onnx.ml"
"""The domain whose operators go by their bare names."""
_OTHER_NAMES = {"float": "float32", "double": "float64"}
SPELLING = {dtype.name: dtype.name for dtype in PLAIN} | {name: other for other, name in _OTHER_NAMES.items()}


@dataclass(frozen=True)
class Port:
    """One formal input or output. `types` are texts such as `tensor(float)`; those of equal `variable` must
    agree. A variadic port takes `least` values or more, of one type if it is `uniform`.
    """

    name: str
    types: frozenset[str]
    variable: str = ""
    doc: str = ""
    optional: bool = False
    variadic: bool = False
    uniform: bool = True
    least: int = 1


@dataclass(frozen=True)
class Attribute:
    """One attribute: its kind (`int`, `floats`, `tensor`, `graph`, …) and default."""

    name: str
    kind: str
    required: bool = False
    default: AttributeValue | None = None
    doc: str = ""


@dataclass(frozen=True)
class Schema:
    """One version of an operator: the contract's part that is data."""

    name: str
    version: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    attributes: Mapping[str, Attribute]
    deprecated: bool = False
    doc: str = ""

    def __hash__(self) -> int:
        return hash((self.name, self.version))

    def port(self, ports: tuple[Port, ...], index: int) -> Port | None:
        """The formal port of the input or output at that place, or None where there are too many."""
        if index < len(ports):
            return ports[index]
        return ports[-1] if ports and ports[-1].variadic else None


def full_name(domain: str, op: str) -> str:
    """How a graph names an operator of a domain."""
    return op if domain in ("", DEFAULT) else f"{domain}.{op}"


def split_name(name: str) -> tuple[str, str]:
    """Domain and operator of a graph's name."""
    domain, _, op = name.rpartition(".")
    return domain or DEFAULT, op


@cache
def schema(name: str, opset: int) -> Schema | None:
    """The version of an operator that is meant in a file with that version of its domain's set, or None."""
    import onnx.defs

    domain, op = split_name(name)
    try:
        found = onnx.defs.get_schema(op, opset, "" if domain == DEFAULT else domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: of a version past 32 bits
        return None
    inputs, outputs = (tuple(map(_port, ports)) for ports in (found.inputs, found.outputs))
    attributes = {key: _attribute(each) for key, each in found.attributes.items()}
    return Schema(name, found.since_version, inputs, outputs, attributes, found.deprecated, found.doc)


@cache
def newest(domain: str) -> int:
    """The newest version of a domain's set of operators; 0 where the standard knows no such domain."""
    import onnx.defs

    domain = "" if domain == DEFAULT else domain
    return int(onnx.defs.onnx_opset_version()) if not domain else max(
        (each.since_version for each in onnx.defs.get_all_schemas() if each.domain == domain), default=0
    )  # fmt: skip


@cache
def names() -> tuple[str, ...]:
    """Every operator of the standard, in its newest version."""
    import onnx.defs

    found = onnx.defs.get_all_schemas()
    return tuple(sorted(full_name(each.domain, each.name) for each in found if not each.deprecated))


def _port(formal: onnx.defs.OpSchema.FormalParameter) -> Port:
    option = formal.option.name
    fixed = "(" in formal.type_str
    return Port(
        formal.name,
        frozenset(formal.types),
        "" if fixed else formal.type_str,
        formal.description.strip(),
        option == "Optional",
        option == "Variadic",
        formal.is_homogeneous,
        formal.min_arity if option == "Variadic" else 1,
    )


def _attribute(found: onnx.defs.OpSchema.Attribute) -> Attribute:
    import onnx

    kind = found.type.name.lower()
    default: AttributeValue | None = None
    if found.default_value.name:
        value = onnx.helper.get_attribute_value(found.default_value)
        default = _plain(value)
    return Attribute(found.name, kind, found.required, default, found.description.strip())


def _plain(value: object) -> AttributeValue:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(_plain(each) for each in value)  # type: ignore[return-value]
    return value  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def spelled(kind: ValueType) -> str:
    """A type as the standard spells it, without its shape: `seq(tensor(float))`."""
    name = SPELLING.get(kind.dtype.name, kind.dtype.name)
    if kind.element is None:
        return f"tensor({name})"
    if kind.dtype is MAP and kind.element.element:
        key, value = kind.element, kind.element.element
        return f"map({SPELLING[key.dtype.name]},{spelled(value)})"
    return f"{'seq' if kind.dtype is SEQUENCE else 'optional'}({spelled(kind.element)})"


@lru_cache(maxsize=4096)
def type_of(text: str) -> ValueType:
    """The type, of unknown rank, that the standard spells so."""
    head, _, inner = text.removesuffix(")").partition("(")
    if head in ("seq", "optional"):
        return ValueType(SEQUENCE if head == "seq" else OPTIONAL, (), type_of(inner))
    key, _, value = inner.rpartition(",")
    if key:
        return ValueType(MAP, (), ValueType(BY_NAME[key], (), type_of(value)))
    return ValueType.of(BY_NAME[_OTHER_NAMES.get(value, value)], "...")


@cache
def numbered(number: int) -> DType | None:
    """The element type that has this number in files, or None."""
    import onnx

    names = {value: key.lower() for key, value in onnx.TensorProto.DataType.items()}
    name = names.get(number, "")
    return BY_NAME.get(_OTHER_NAMES.get(name, name))
