"""Untrusted chat templates: jinja2's sandbox with a meter, so that each render ends, soon and within bounds.

Every loop step and call, and every character and element of every value that the template makes, takes from
one budget. So nothing made is larger than the budget, and what is done takes time in proportion to it. To
hold that, the template's syntax tree is rewritten before it is compiled (`_Metering`), and of jinja2's
filters, methods and globals only those are there whose work is in proportion to what they take and give.
Equal input gives equal output: no clock, no random choice, and what would print its address isn't printed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from itertools import chain

from jinja2 import Undefined, filters, nodes, pass_context
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from assay.errors import RequestError
from assay.llm.template import refuse

STEP = 16  # what a loop step or an element costs, in characters
CALL = 4 * STEP

_SCALARS = (type(None), bool, int, float, Undefined)
_SEQUENCES = (list, tuple, KeysView, ValuesView, ItemsView)
_INTEGER_BITS = 256
_SHORTENING = (
    *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "lower", "upper", "capitalize", "title"),
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition", "rpartition"),
    *("isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower", "isnumeric", "isdecimal"),
)
_SPLITTING = ("split", "rsplit", "splitlines")
_METHODS: dict[type, tuple[str, ...]] = {
    str: (*_SHORTENING, *_SPLITTING, "replace", "join"),
    dict: ("get", "items", "keys", "values"),
    list: ("index", "count"),
    tuple: ("index", "count"),
}
_RUNTIME = (LoopContext, Namespace, TemplateReference, BlockReference)
# jinja2's own filters that are kept, by what they are given before the value.
_PLAIN = (
    *("trim", "upper", "lower", "title", "capitalize", "default", "d", "int", "float", "abs", "length"),
    *("count", "reverse", "items", "dictsort"),
)
_WITH_ENVIRONMENT = ("first", "last", "sort", "unique", "min", "max")
_WITH_CONTEXT = ("map", "select", "reject", "selectattr", "rejectattr")


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """Compiles templates to metered ones. `budget` is set before each render; one thread at a time."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "**", "%"))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[LoopControlExtension, _Generation])
        self.budget = 0
        self.finalize = pass_context(lambda _, value: self._text(value))
        self.globals = {
            "range": safe_range,
            "namespace": Namespace,
            "dict": lambda **items: items,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }
        self.filters = {name: self._metered(name) for name in (*_PLAIN, *_WITH_ENVIRONMENT, *_WITH_CONTEXT)}
        own: dict[str, Callable[..., object]] = {
            "list": lambda value: list(self._counted(value)),
            "string": self._text,
            "join": lambda value, d="": self._join(d, value),
            "replace": lambda value, old, new: self._replace(self._text(value), old, new),
            "tojson": self._tojson,
            _Metering.SPEND: self._spend,
            _Metering.SEEN: self._seen,
            _Metering.MADE: self._made,
            _Metering.CONCAT: lambda *parts: "".join(map(self._text, parts)),
        }
        # Filters that want the context aren't run by the compiler, to fold constants.
        for name, function in own.items():
            self.filters[name] = pass_context(lambda _, *args, _own=function, **kwargs: _own(*args, **kwargs))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        metered: nodes.Template = _Metering().visit(super()._parse(source, name, filename))
        return metered

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Only what a template needs: methods listed here, and what jinja2's loops and namespaces have."""
        for kind, names in _METHODS.items():
            if isinstance(obj, kind):
                return attr in names
        return isinstance(obj, _RUNTIME) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: object) -> None:
        """No str.format: a width in its template makes strings of any length."""

    def call(self, context: Context, obj: object, /, *args: object, **kwargs: object) -> object:
        """Metered: the call, the string whose method it is, and what it returns."""
        self._spend(CALL)
        owner, method = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, str):
            self._spend(len(owner))
            if method == "replace":
                return self._replace(owner, *args)
            if method == "join":
                return self._join(owner, *args)
            if method in _SPLITTING:
                separator = args[0] if args and isinstance(args[0], str) and args[0] else None
                self._spend(STEP * (owner.count(separator) if separator else len(owner)))
        return self._made(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Metered: strings and lists that are joined or repeated, and integers that grow."""
        if operator == "%" and isinstance(left, str):
            raise refuse("a chat template that formats strings by %", want="~ or +")
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            if bits > _INTEGER_BITS:
                raise refuse("a chat template with a huge number", want=f"at most {_INTEGER_BITS} bits")
        elif operator == "*":
            for times, repeated in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(repeated, (str, *_SEQUENCES)):
                    self._made(repeated)
                    self._spend(max(times, 0) * self._size(repeated))
        elif operator == "+":
            self._made(left)
            self._made(right)
        return super().call_binop(context, operator, left, right)

    def _spend(self, cost: int) -> bool:
        self.budget -= cost
        if self.budget < 0:
            raise refuse("the chat template does too much", want="an end to its loops and to what it makes")
        return True

    def _seen(self, value: object) -> object:
        """`value`, paid for as something that is gone through once."""
        self._spend(self._size(value))
        return value

    def _size(self, value: object) -> int:
        if isinstance(value, str):
            return STEP + len(value)
        return STEP * (1 + len(value)) if isinstance(value, (dict, range, *_SEQUENCES)) else STEP

    def _made(self, value: object) -> object:
        """`value`, paid for with all that is in it, as often as it is."""
        pending = [value] if isinstance(value, (str, dict, *_SEQUENCES)) else []
        while pending:
            item = pending.pop()
            if isinstance(item, dict):
                pending.extend(chain.from_iterable(item.items()))
            elif isinstance(item, _SEQUENCES):
                pending.extend(item)
            elif not isinstance(item, (str, *_SCALARS)):
                got = type(item).__name__
                raise refuse("a chat template with odd lists", want="strings and numbers", got=got)
            self._spend(self._size(item) if isinstance(item, str) else STEP)
        return value

    def _text(self, value: object) -> str:
        """What `value` prints as, paid for."""
        if not isinstance(value, (str, dict, *_SEQUENCES, *_SCALARS)):
            want, got = "text, numbers, lists", type(value).__name__
            raise refuse("a chat template that prints an object", want=want, got=got)
        return str(self._made(value))

    def _counted(self, value: Iterable[object]) -> Iterator[object]:
        for item in value:
            self._spend(STEP)
            yield item

    def _join(self, separator: object, items: object) -> str:
        if not isinstance(items, Iterable):
            raise TypeError(f"{type(items).__name__} can't be joined")
        texts = [self._text(item) for item in self._counted(items)]
        between = self._text(separator)
        self._spend(len(between) * len(texts))
        return between.join(texts)

    def _replace(self, text: str, *args: object) -> str:
        old, new = map(self._text, args)
        self._spend(len(text) + text.count(old) * len(new))
        return text.replace(old, new)

    def _tojson(self, value: object, ensure_ascii: bool = False, indent: int | None = None) -> str:
        if not 0 <= (indent or 0) <= 8:
            raise refuse("a chat template with a wide indent", want="0 to 8", got=str(indent))
        return self._text(json.dumps(self._made(value), ensure_ascii=ensure_ascii, indent=indent))

    def _metered(self, name: str) -> Callable[..., object]:
        function: Callable[..., object] = filters.FILTERS[name]

        @pass_context
        def metered(context: Context, value: object, *args: object, **kwargs: object) -> object:
            if isinstance(value, Namespace):
                raise refuse("a chat template that filters a namespace", want="a value")
            self._seen(value)
            if isinstance(value, Iterator):
                value = self._counted(value)
            first = (self,) if name in _WITH_ENVIRONMENT else (context,) if name in _WITH_CONTEXT else ()
            return self._made(function(*first, value, *args, **kwargs))

        return metered


class _Generation(Extension):
    """`{% generation %}` around what a model answered, which training asks for: it changes nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _Metering(NodeTransformer):
    """Puts the meter into a syntax tree, as filters whose names no template can spell."""

    SPEND, SEEN, MADE, CONCAT = "meter spend", "meter seen", "meter made", "meter concat"

    def generic_visit(self, node: nodes.Node, *args: object, **kwargs: object) -> nodes.Node:
        """The node, metered from the inside out."""
        super().generic_visit(node)
        if isinstance(node, nodes.ScopedEvalContextModifier):
            raise refuse("a chat template that escapes HTML", want="no {% autoescape %}")
        if isinstance(node, nodes.For):
            text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
            node.body.insert(0, nodes.ExprStmt(_filter(self.SPEND, nodes.Const(STEP + text))))
            if node.test is not None:
                node.test = nodes.And(_filter(self.SPEND, nodes.Const(STEP)), node.test)
        elif isinstance(node, nodes.Compare | nodes.Operand):
            node.expr = _filter(self.SEEN, node.expr)
        elif isinstance(node, nodes.Test):
            node.node = _filter(self.SEEN, node.node)
        elif isinstance(node, nodes.Concat):
            return _filter(self.CONCAT, *node.nodes)
        elif (
            isinstance(node, nodes.List | nodes.Dict)
            or (isinstance(node, nodes.Tuple) and node.ctx == "load")
            or (isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice))
        ):
            return _filter(self.MADE, node)
        return node


def _filter(name: str, value: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None)


def _raise_exception(message: object) -> None:
    raise RequestError("the chat template refuses these messages", place="messages", got=str(message)[:500])


def _strftime_now(layout: object) -> None:
    rule, want = "a chat template that asks for the date", "output that depends on nothing but the messages"
    hint = "write the date into the system message, and use a template without strftime_now"
    raise refuse(rule, want=want, got=f"strftime_now({str(layout)[:100]!r})", hint=hint)
