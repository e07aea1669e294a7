"""A graph gone through once: every node in its newest meaning, held against its contract, with the types and
the known values that follow; or all that is wrong.

With symbols in the inputs' shapes this is the check of a file; with sizes in their place, and the values of
inputs that shapes depend on, it is what a plan is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from math import prod

from assay.errors import AssayError, Violation, near
from assay.graph.dim import Dim
from assay.graph.graph import Graph, Node, ValueType
from assay.graph.text import quote
from assay.ops.resolution import line_of, place_of
from assay.ops.standard import contract, registry, schema, versions
from assay.ops.standard.growth import DEEPEST, grown, growth, most_nodes
from assay.ops.standard.known import FOLDED, constant_of, folded, symbolic
from assay.ops.standard.names import bound, inner_names
from assay.ops.standard.older import REWRITES
from assay.ops.standard.rewriting import Rewriting
from assay.ops.standard.schema import Schema
from assay.ops.standard.site import RANK, Array, Made, Problem, Site
from assay.tensor.narrow import dtype_of

Expand = Callable[[Site], Graph | None]
Types = tuple[ValueType | None, ...]


class Inference:
    """The walk over one graph. `sites` are its nodes as they are to run, in order, with unique names of
    values; functions, and branches that are known to be taken, in line.

    `types` has each value's type, None where an earlier violation leaves it open; `values` those that are
    known; `constants` those that rewriting added. `errors` are the violations.
    """

    def __init__(
        self,
        graph: Graph,
        types: Mapping[str, ValueType],
        values: Mapping[str, Array],
        outer: Inference | None = None,
        *,
        trusted: bool = False,
        expand: Expand = lambda site: None,
    ) -> None:
        """`types` and `values` of the graph's own sources; `outer` is the walk that met it in a node. With
        `trusted`, nodes are in their newest meaning already, and were held against their schemas before.
        `expand` gives the function by which a node is to be run, or None.
        """
        self.expand = expand
        self.graph = graph
        self.trusted = trusted
        self.types: dict[str, ValueType | None] = dict(outer.types) if outer else {}
        self.values: dict[str, Array] = dict(outer.values) if outer else {}
        self.types |= {name: graph.types.get(name) for _, name in graph.sources()} | dict(types)
        self.values |= values
        self.constants: dict[str, Array] = {}
        self.makers: dict[str, Site] = dict(outer.makers) if outer else {}
        self.sites: list[Site] = []
        self.errors: list[Violation] = []
        self.opsets: Mapping[str, int] = graph.opsets or (outer.opsets if outer else {})
        own = {each.name: each for each in graph.functions}
        self.functions: Mapping[str, Graph] = outer.functions if outer else own
        self.running: tuple[str, ...] = (*outer.running, "") if outer else ()
        """The functions that this is in, and "" for each body."""
        self.walks: list[int] = outer.walks if outer else [most_nodes(grown(graph.nodes))]
        """How often bodies may still be gone through."""
        self.names: dict[str, str] = {}
        """The graph's names of values that go by others here."""
        self.written: dict[object, Types] = outer.written if outer else {}
        """The types of outputs by their node's line, and of the inputs of functions and bodies by what they
        are; None where uses differ.
        """
        self.trips = 1
        """How often the loops around run this."""
        self.scoped = False
        """Whether the nodes are a function's, which sees no other values than its own."""
        self._later: dict[str, Node] = dict(outer._later) if outer else {}
        self._later |= {name: node for node in graph.nodes for name in node.outputs if name}
        self._made: dict[str, Node] = {}
        self._inputs: tuple[str, ...] = (*graph.inputs, *(outer._inputs if outer else ()))
        self._causes: dict[str, Violation] = dict(outer._causes) if outer else {}

    def run(self) -> Inference:
        """Go through all nodes."""
        for kind, name in self.graph.sources():
            self._once(name, Node(kind, (), (name,)))
        if not self.trusted:
            self._versions()
            if self.graph.functions:
                self._growth()
        if self.errors:
            return self
        self._nodes(self.graph, self.graph.nodes)
        for name in self.graph.outputs:
            self._read(name, Node("output", (name,), ()))
        return self

    def _versions(self) -> None:
        """Hold the versions of sets of operators against those that there are."""
        lines = [(domain, version, 2 + at) for at, (domain, version) in enumerate(self.graph.opsets.items())]
        lines += [(*each, 0) for function in self.graph.functions for each in function.opsets.items()]
        for domain, version, line in lines:
            most = schema.newest(domain)
            if most and not 1 <= version <= most:
                node = Node("opset", (), (domain,), line=line)
                hint = "a newer onnx package may know it" if version > most else "export it anew"
                self._tell(node, "unknown version of a set of operators", f"1 to {most}", str(version), hint)

    def _growth(self) -> None:
        """Refuse functions that call each other so often that few nodes stand for billions."""
        total, most, node = growth(self.graph)
        if total > most:
            rule, want, got = "functions grow beyond measure", f"at most {most} nodes", f"{total} in all"
            self._tell(node, rule, want, got, "functions that call each other twice double at each step")

    def known(self, name: str) -> ValueType | None:
        """The type of one of the graph's values."""
        return self.types.get(self.names.get(name, name))

    # Nodes as written

    def _nodes(self, graph: Graph, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if self.trusted:
                self.infer(node, node)
            else:
                self._node(graph, node)

    def _node(self, graph: Graph, node: Node) -> None:
        before = len(self.errors)
        if self.scoped:  # an input of the function that its caller left out
            node = replace(node, inputs=tuple(name if self._own(name) else "" for name in node.inputs))
        for name in dict.fromkeys(node.inputs):
            self._read(name, node)
        domain, _ = schema.split_name(node.op)
        if node.op in self.functions:
            self._function(node, self.functions[node.op])
        else:
            written = self._schema(node, domain)
            broken = written is None or self._breaks(node, written)
            if broken or len(self.errors) > before:
                self._poison(node)
            else:
                assert written is not None
                self._apply(node, written)
        self._declared(graph, node)
        for name in filter(None, node.outputs):
            self._once(name, node)
        self._note(node.line, tuple(map(self.known, node.outputs)))

    def _note(self, key: object, kinds: Types) -> None:
        before = self.written.get(key, kinds)
        pairs = zip_longest(before, kinds)
        self.written[key] = kinds if before == kinds else tuple(a if a == b else None for a, b in pairs)

    def _schema(self, node: Node, domain: str) -> Schema | None:
        """The version that the node is written for; a violation where there is none."""
        own = registry.find(node.op)
        if own and own.given:
            return own.given
        opset = self.opsets.get(domain)
        if opset is None:
            want = f"an opset of {domain} among the imports"
            rule, got = "operator of a domain that isn't imported", ", ".join(self.opsets) or "none"
            self._tell(node, rule, want, got, near(domain, self.opsets) or "add it to opset_import")
            return None
        found = schema.schema(node.op, opset)
        if found is None or (found.deprecated and node.op not in REWRITES):
            want, got = f"an operator of {domain} {opset}", quote(node.op)
            newest = schema.newest(domain)
            later = [v for v in range(max(opset, 0) + 1, newest + 1) if schema.schema(node.op, v)][:1]
            hint = f"it came with version {later[0]}" if later else near(node.op, schema.names())
            hint = f"version {found.version} took it away" if found else hint
            self._tell(node, "unknown operator", want, got, hint or "register it, or give it as a function")
            return None
        return found

    def _breaks(self, node: Node, written: Schema) -> bool:
        """Hold a node against the schema of its own version."""
        kinds = [self.known(name) if name else None for name in node.inputs]
        problems = [*contract.arity(node, written), *contract.attributes(node, written)]
        problems += contract.dtypes(node, written, kinds)
        for problem in problems:
            self._refuse(node, node, written, problem)
        return bool(problems)

    def _apply(self, node: Node, written: Schema) -> None:
        """Rewrite a node, its values by the names that they have here, to the newest meaning; infer that."""
        renamed = replace(
            node,
            inputs=tuple(map(self._own, node.inputs)),
            outputs=tuple(map(self._own, node.outputs)),
            attributes={**node.attributes, **{key: self._body_here(body) for key, body in node.bodies}},
        )
        try:
            nodes = versions.upgrade(renamed, written.version, Rewriting(self))
        except AssayError as error:
            hint = error.hint or f"assay contract {node.op}"
            self._tell(node, error.rule, error.want, error.got, hint)
            self._poison(node)
            return
        for each in nodes:
            self.infer(each, node)

    # Nodes in their newest meaning

    def infer(self, node: Node, written: Node) -> None:
        """Hold a node in its newest meaning against the contract, and define its outputs."""
        if node.op == "Constant" and len(node.attributes) != 1:
            got, hint = ", ".join(node.attributes) or "none", "a Constant has one attribute, its value"
            self._tell(written, "no value, or several", "one attribute", got, hint)
            self._poison(node)
            return
        if node.op == "Constant":
            self.constant(node.outputs[0], constant_of(node))
            return
        definition = registry.find(node.op)
        if definition is None:
            self._tell(written, "operator not implemented", "one of `assay contract`", quote(node.op))
            self._poison(node)
            return
        taken = self._branch(node)
        if taken is not None:
            self._inline(node, taken)
            return
        kinds = [self.types.get(name) if name else None for name in node.inputs]
        missing = [name for name, kind in zip(node.inputs, kinds, strict=True) if name and kind is None]
        if missing:
            self._follow(node, written, missing[0])
            return
        values = [self.values.get(name) for name in node.inputs]
        site = Site(node, definition, kinds, values, contract.filled(node, definition.schema))
        site.trips = self.trips
        site.infer_body = lambda attribute, types: self._body(node, attribute, types, site.trips)
        before = len(self.errors)
        try:
            made = self._ruled(site)
        except OverflowError:  # an expression of sizes that grew too long to be of use
            made = [None] * len(node.outputs)
        except (ArithmeticError, ValueError) as error:  # a size of NaN, too
            made = ()
            site.refuse("sizes that can't be computed", want="finite numbers, no division by 0", got=error)
        site.outputs = contract.outputs(site, made)
        for kind in site.outputs:
            axes = len(kind.shape) if kind else 0
            site.require(axes <= RANK, "too many axes", want=f"at most {RANK} in an output", got=axes)
            extent = prod(dim.constant or 1 for dim in kind.shape) if kind else 0
            site.require(extent < 1 << 60, "too many elements", want="fewer than 2⁶⁰ in an output", got=kind)
        for problem in site.problems:
            self._refuse(written, node, definition.schema, problem)
        if site.problems:
            self._poison(node)
            return
        function = self.expand(site)
        if function is None:
            self._define(site)
            if len(self.errors) > before:  # those of a body
                self._poison(node)
        else:
            known = ((key, site.attributes.get(key)) for key in function.parameters)
            given = {key: value for key, value in known if value is not None}
            with self._inside(names={}):  # the node's are those that values have here
                self._function(replace(node, attributes=given), function)

    def constant(self, name: str, value: Array) -> str:
        """Define a constant."""
        dtype = dtype_of(value.dtype)
        assert dtype is not None
        self.types[name] = ValueType.of(dtype, *value.shape)
        self.constants[name] = value
        if value.size <= FOLDED:
            self.values[name] = value
        return name

    def _ruled(self, site: Site) -> Sequence[Made]:
        """What the operator's rule says of the outputs."""
        for problem in contract.ranges(site):
            site.problems.append(problem)
        if site.problems:
            return ()
        given = [kind for kind in site.types if kind]
        if not site.definition.unranked and not all(kind.ranked for kind in given):
            return [None] * len(site.node.outputs)
        return site.definition.rule(site)

    def _define(self, site: Site) -> None:
        site.made = site.made or folded(site)
        self.sites.append(site)
        for index, (name, kind) in enumerate(zip(site.node.outputs, site.outputs, strict=False)):
            if name:
                self.types[name] = kind
                self.makers[name] = site
                if index in site.made:
                    self.values[name] = site.made[index]

    # Graphs in nodes

    def _branch(self, node: Node) -> Graph | None:
        """The branch that an If is known to take."""
        condition = self.values.get(node.inputs[0]) if node.op == "If" and node.inputs else None
        if condition is None or condition.size != 1 or symbolic(condition):
            return None
        body = node.attributes["then_branch" if condition.reshape(-1)[0] else "else_branch"]
        return body if isinstance(body, Graph) else None

    @contextmanager
    def _inside(self, **other: object) -> Iterator[None]:
        """Go through a function or a branch, in which some of what the walk goes by is other."""
        before = {name: getattr(self, name) for name in other}
        vars(self).update(other)
        yield
        vars(self).update(before)

    def _inline(self, node: Node, body: Graph) -> None:
        """A body's nodes in place of the node, whose outputs then are the body's."""
        names = {**self.names, **inner_names(body, node.outputs)}
        opsets = body.opsets or self.opsets
        with self._inside(names=names, opsets=opsets, trusted=False, scoped=False, _made={}):
            self._nodes(body, body.nodes)
            results = list(map(self._own, body.outputs))
        self._copies(results, node)

    def _copies(self, results: Sequence[str], node: Node) -> None:
        """Values under the names of a node's outputs, where they haven't got them already."""
        for result, output in zip(results, node.outputs, strict=False):
            if output and output != result and self.types.get(result) is None and result in self._causes:
                self._poison(Node("", (), (output,)), self._causes[result])
            elif output and output != result:
                self.infer(Node("Identity", (result,), (output,), {}, node.name, node.line), node)

    def _body_here(self, body: Graph) -> Graph:
        """A body as a node's that may stand in another graph: what it reads goes by the names here."""
        return replace(body.renamed(self.names), opsets=body.opsets or self.opsets)

    def _body(
        self, node: Node, attribute: str, types: Sequence[ValueType | None], trips: int
    ) -> tuple[ValueType | None, ...]:
        """The types that the outputs of a body, which is run so often, have where its inputs have these."""
        body = node.attributes[attribute]
        assert isinstance(body, Graph)
        given = {name: kind for name, kind in zip(body.inputs, types, strict=False) if kind}
        self._note((node.line, attribute), tuple(types))
        self.walks[0] -= 1
        if self.walks[0] < 0:
            if not self.walks[0] + 1:
                rule, got = "loops inside each other", "types that change with each way through"
                self._tell(node, rule, "bodies whose types settle", got, "give carried values one type")
            return (None,) * len(body.outputs)
        inner = Inference(body, given, {}, self)
        inner.trips = trips
        inner.run()
        told = {(error.place, error.rule) for error in self.errors}  # a loop's body is gone through again
        self.errors += [error for error in inner.errors if (error.place, error.rule) not in told]
        return tuple(inner.known(name) for name in body.outputs)

    def _function(self, node: Node, function: Graph) -> None:
        if len(self.running) > DEEPEST or (node.op in self.functions and node.op in self.running):
            rule, got = "functions inside each other", "more, or one that calls itself"
            self._tell(node, rule, f"at most {DEEPEST}", got, "a function may not lead to itself")
            self._poison(node)
            return
        if len(node.inputs) > len(function.inputs) or len(node.outputs) > len(function.outputs):
            want = f"at most {len(function.inputs)} inputs and {len(function.outputs)} outputs"
            got = f"{len(node.inputs)} and {len(node.outputs)}"
            hint = f"the function is {function.name}({', '.join(function.inputs)})"
            self._tell(node, "wrong number of inputs or outputs", want, got, hint)
            self._poison(node)
            return
        for key in node.attributes.keys() - function.parameters.keys():
            want, hint = ", ".join(function.parameters) or "no attributes", "the function doesn't read it"
            hint = near(key, function.parameters) or hint
            self._tell(node, f"unknown attribute {quote(key)}", want, key, hint)
        given = {key: value for key, value in function.parameters.items() if value is not None}
        given |= node.attributes
        nodes = bound(function.nodes, given)
        inputs = (*node.inputs, *[""] * (len(function.inputs) - len(node.inputs)))
        outputs = tuple(map(self._own, node.outputs))
        names = inner_names(function, outputs)
        names |= zip(function.inputs, map(self._own, inputs), strict=True)
        opsets, running = function.opsets or self.opsets, (*self.running, node.op)
        with self._inside(names=names, opsets=opsets, running=running, trusted=False, scoped=True, _made={}):
            self._note(function.name, tuple(map(self.known, function.inputs)))
            self._nodes(function, nodes)
            results = list(map(self._own, function.outputs))
        self._copies(results, replace(node, outputs=outputs))

    # Values by name

    def _own(self, name: str) -> str:
        return self.names.get(name, name)

    def _read(self, name: str, node: Node) -> None:
        hidden = self.scoped and name not in self.names
        if not name or (self._own(name) in self.types and not hidden):
            return
        if name in self._later and not hidden:
            maker = self._later[name]
            where = f"made by {place_of(maker)}" + (f", line {maker.line}" if maker.line else "")
            hint = "put the nodes in an order in which they can run; a cycle has none"
            rule, want = "value used before it is made", "a value of the lines above"
            self._tell(node, rule, want, f"{quote(name)}, {where}", hint, name)
        else:
            hint = near(name, filter(None, self.types)) or "an initialiser, an input or a node is missing"
            self._tell(node, "value undefined", "a value of the lines above", quote(name), hint, name)
        self.types[self._own(name)] = None
        self._causes[self._own(name)] = self.errors[-1]

    def _once(self, name: str, maker: Node) -> None:
        """A value is defined here."""
        first = self._made.setdefault(name, maker)
        if first is not maker:
            got = f"{quote(name)}, made by {place_of(first)}, line {first.line}"
            self._tell(maker, "value defined twice", "a name of its own", got, "rename one of the two", name)

    def _poison(self, node: Node, cause: Violation | None = None) -> None:
        """Leave a node's outputs open because of a violation, by default the last one."""
        for name in map(self._own, filter(None, node.outputs)):
            self.types[name] = None
            self._causes[name] = cause or self.errors[-1]

    def _follow(self, node: Node, written: Node, missing: str) -> None:
        """A node can't be checked for want of an input's type: a consequence, or a violation of its own."""
        cause = self._causes.get(missing)
        if cause:
            cause.consequences += 1
        else:
            hint = "declare its type in the graph"
            self._tell(written, "type unknown", "values whose types are known", quote(missing), hint, missing)
        self._poison(node, cause)

    def _declared(self, graph: Graph, node: Node) -> None:
        """Hold what was inferred of a node's outputs against what the file declares; take on what it adds."""
        for name in filter(None, node.outputs):
            own, declared = self._own(name), graph.types.get(name)
            kind = self.types.get(own)
            if declared is None or own in self._causes:
                continue
            joined = contract.joined(kind, declared) if kind else declared
            if joined is None:
                rule = f"output {quote(name)}: contradicts its declared type"
                hint = "the declaration, or an input's shape, is wrong"
                self._tell(node, rule, f"{declared}, as declared", f"{kind}, as inferred", hint, name)
            else:
                self.types[own] = joined

    # Violations

    def _tell(
        self,
        node: Node,
        rule: str,
        want: str,
        got: str,
        hint: str = "",
        name: str = "",
        dim: Dim | None = None,
        input: str = "",
    ) -> None:
        place = line_of(node)
        rule = f"input {input}: {rule}" if input else rule
        error = Violation(rule, place=place, want=want, got=got, hint=hint)
        error.line, error.node, error.operator = node.line, node.name, node.op
        error.input, error.value = input, name
        error.chain = self._chain(self._own(name), dim) if name else ()
        self.errors.append(error)

    def _refuse(self, written: Node, node: Node, held: Schema, problem: Problem) -> None:
        """Tell of a problem of a node that is held against a schema."""
        rule, want, got, hint, index, dim = problem
        port = held.port(held.inputs, index) if index >= 0 else None
        name = node.inputs[index] if 0 <= index < len(node.inputs) else ""
        hint = hint or f"assay contract {node.op}"
        self._tell(written, rule, want, got, hint, name, dim, port.name if port else "")

    def _chain(self, name: str, dim: Dim | None) -> tuple[str, ...]:
        """Where a value, or its dimension, is from: a line for each producer, back to where it came up."""
        steps: list[str] = []
        while name and len(steps) < 8:
            kind, site = self.types.get(name), self.makers.get(name)
            if site is None and kind is None:
                break
            if site is None:
                what = "an input" if name in self._inputs else "a weight"
                steps.append(f"{quote(name)}: {kind}, {what}")
                break
            line = f", line {site.node.line}" if site.node.line else ""
            steps.append(f"{quote(name)}: {kind or 'unknown'}, made by {place_of(site.node)}{line}")
            same = [
                given
                for given in filter(None, site.node.inputs)
                if (other := self.types.get(given))
                and (dim in other.shape if dim else other.dtype == (kind and kind.dtype))
            ]
            name = same[0] if same and same[0] != name else ""
        return tuple(steps)
