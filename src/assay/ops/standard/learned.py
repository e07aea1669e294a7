"""The domain ai.onnx.ml: classical models, which run by the standard's own evaluator, and what is around
them; what the evaluator lacks or has wrong has a reference here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import Literal, ValueType
from assay.ops.operator import Exactness
from assay.ops.standard.definition import FLAG, POSITIVE, Range, one_of
from assay.ops.standard.index import within
from assay.ops.standard.pointwise import same
from assay.ops.standard.registry import define
from assay.ops.standard.schema import ML
from assay.ops.standard.site import Array, Made, Site
from assay.tensor.dtype import F32, I64, MAP, SEQUENCE, STRING, DType

TRANSFORM = one_of("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
KERNEL = one_of("LINEAR", "POLY", "RBF", "SIGMOID")
ROWS = "[N, …] for X of [N, C] or [C], which is one row."


def count(site: Site, key: str) -> int:
    """The elements of an attribute that is a list or a tensor; 0 where it isn't given."""
    value = site.attributes.get(key)
    if isinstance(value, Literal):
        return value.sizes[0] if value.sizes else 1
    return len(value) if isinstance(value, tuple) else 0


def one(site: Site, *keys: str) -> str:
    """Which of several attributes is given; a violation unless it is just one."""
    given = [key for key in keys if site.attributes.get(key) is not None]
    site.require(len(given) == 1, "attributes that exclude each other", want=f"one of {', '.join(keys)}",
                 got=", ".join(given) or "none")  # fmt: skip
    return given[0] if given else keys[0]


def alike(site: Site, *keys: str) -> int:
    """The elements of attributes that are given and must have as many as each other."""
    sizes = {key: count(site, key) for key in keys if site.attributes.get(key) is not None}
    site.require(len(set(sizes.values())) <= 1, "lists of other lengths", want="as many elements in each",
                 got=", ".join(f"{key}: {size}" for key, size in sizes.items()))  # fmt: skip
    return next(iter(sizes.values()), 0)


def features(site: Site, key: str, *, each: int = 1) -> None:
    """Hold the list in an attribute to one element, or `each` for every feature."""
    size, columns = count(site, key), site.shape(0)[-1].constant if site.shape(0) else None
    want = f"1 or {each} for each of {columns} features"
    good = columns is None or size in (1, each * columns)
    site.require(not size or good, f"attribute {key}: number of elements", want=want, got=size)


def rows(site: Site) -> Dim:
    """The rows of the first input: a vector is one."""
    site.want_rank(0, 1, 2)
    return site.shape(0)[0] if site.rank(0) == 2 else Dim.of(1)


def labels(site: Site, *keys: str) -> tuple[DType, int]:
    """The type and the number of the class labels."""
    key = one(site, *keys)
    return (STRING if key.endswith("strings") else I64), count(site, key)


# Columns


def _extract(site: Site) -> Sequence[Made]:
    within(site, 1, site.peek(1), site.shape(0)[-1] if site.rank(0) else Dim.of(1))
    chosen = reduce(mul, site.shape(1), Dim.of(1))
    return [(*site.shape(0)[:-1], chosen) if site.rank(0) > 1 else (Dim.of(1), chosen)]


def _scaled(site: Site) -> Sequence[Made]:
    for key in ("offset", "scale"):
        features(site, key)
    return [site.shape(0)]


def _imputed(site: Site) -> Sequence[Made]:
    key = one(site, "imputed_value_floats", "imputed_value_int64s")
    real = site.dtype(0).kind == "float"
    site.require(
        key.endswith("floats") == real, "values of another type", want=f"those of {site.dtype(0)}", got=key
    )
    features(site, key)
    return [site.shape(0)]


def _run_imputer(X: Array, **given: object) -> Array:
    real = given["imputed_value_floats"] is not None
    values = given["imputed_value_floats" if real else "imputed_value_int64s"]
    gone = given["replaced_value_float" if real else "replaced_value_int64"]
    missing = np.isnan(X) if real and np.isnan(gone) else np.equal(X, gone)  # type: ignore[call-overload]
    return np.where(missing, np.asarray(values, X.dtype), X)


def _vectorized(site: Site) -> Sequence[Made]:
    widths = site.integers("inputdimensions") or ()
    want = f"{len(site.types)}, the inputs"
    site.require(
        len(widths) == len(site.types), "attribute inputdimensions: number", want=want, got=len(widths)
    )
    first = rows(site)
    for index in range(1, len(site.types)):
        if site.want_rank(index, 1, 2):
            site.agree(first, site.shape(index)[0] if site.rank(index) == 2 else Dim.of(1), "rows", index)
    return [(first, Dim.of(sum(widths)))]


def _run_vectorizer(*inputs: Array, inputdimensions: Sequence[int]) -> Array:
    found = []
    for array, width in zip(inputs, inputdimensions, strict=True):
        matrix = array.reshape(-1, array.shape[-1])[:, :width].astype(np.float32)
        found.append(np.pad(matrix, ((0, 0), (0, width - matrix.shape[1]))))
    return np.concatenate(found, 1)


def _hot(site: Site) -> Sequence[Made]:
    kind, size = labels(site, "cats_int64s", "cats_strings")
    site.require((site.dtype(0).kind == "string") == (kind is STRING), "categories of another type",
                 want=f"those of {site.dtype(0)}", got=kind)  # fmt: skip
    return [(*site.shape(0), Dim.of(size))]


def _run_hot(
    X: Array, *, cats_int64s: Sequence[int] | None, cats_strings: Sequence[str] | None, zeros: int
) -> Array:
    cats = np.array(cats_int64s) if cats_strings is None else np.array(cats_strings, object)
    found = (X if cats_strings else X.astype(np.int64))[..., None] == cats
    if not zeros and not found.any(-1).all():
        raise ValueError("a value that is none of the categories")
    return np.asarray(found).astype(np.float32)


# Labels and maps


def _encoded(site: Site) -> Sequence[Made]:
    kinds = {"strings": STRING, "int64s": I64, "floats": F32}
    found = []
    for what in ("keys", "values"):
        key = one(site, *(f"{what}_{ending}" for ending in (*kinds, "tensor")))
        tensor = site.attributes.get(key)
        found.append(tensor.dtype if isinstance(tensor, Literal) else kinds.get(key.rpartition("_")[2], F32))
        alike(
            site, key, *(f"{other}_{ending}" for other in ("keys", "values") for ending in (*kinds, "tensor"))
        )
    site.require(found[0] == site.dtype(0), "keys of another type", want=str(site.dtype(0)), got=found[0])
    return [ValueType(found[1], site.shape(0))]


def _run_encoder(X: Array, **given: object) -> Array:
    keys, values = (
        next(_plain(given[f"{what}_{end}"]) for end in ENDINGS if given[f"{what}_{end}"] is not None)
        for what in ("keys", "values")
    )
    default = {"O": "default_string", "i": "default_int64", "f": "default_float"}.get(values.dtype.kind)
    tensor = given["default_tensor"]
    other = _plain(tensor).reshape(-1)[0] if tensor is not None else given[default] if default else 0
    table = {_key(key): value for key, value in zip(keys.tolist(), values.tolist(), strict=True)}
    found = [table.get(_key(each), other) for each in X.reshape(-1).tolist()]
    return np.array(found, values.dtype).reshape(X.shape)


ENDINGS = ("strings", "int64s", "floats", "tensor")


def _plain(value: object) -> Array:
    """The elements of a list or of a tensor."""
    if isinstance(value, Literal):
        return value.array().reshape(-1)
    assert isinstance(value, tuple)
    kind = {str: object, float: np.float32}.get(type(value[0]) if value else int, np.int64)
    return np.array(value, kind)


def _key(value: object) -> object:
    """NaN is any NaN."""
    return "NaN" if isinstance(value, float) and value != value else value


def _mapped(site: Site) -> Sequence[Made]:
    alike(site, "cats_int64s", "cats_strings")
    kind = STRING if site.dtype(0) is I64 else I64
    return [ValueType(kind, site.shape(0))]


def _run_mapper(
    X: Array,
    *,
    cats_int64s: Sequence[int],
    cats_strings: Sequence[str],
    default_int64: int,
    default_string: str,
) -> Array:
    if X.dtype == object:
        table: Mapping[object, object] = dict(zip(cats_strings, cats_int64s, strict=True))
        return np.array([table.get(each, default_int64) for each in X.flat], np.int64).reshape(X.shape)
    table = dict(zip(cats_int64s, cats_strings, strict=True))
    return np.array([table.get(int(each), default_string) for each in X.flat], object).reshape(X.shape)


def _dictionary(site: Site) -> Sequence[Made]:
    key, kind = one(site, "int64_vocabulary", "string_vocabulary"), site.type(0).element
    assert kind and kind.element
    site.require(
        key.startswith(kind.dtype.name[:5]), "a vocabulary of another type", want=str(kind.dtype), got=key
    )
    return [ValueType(kind.element.dtype, (Dim.of(1), Dim.of(count(site, key))))]


def _run_dictionary(X: dict[object, object], *, site: Site, **given: object) -> Array:
    words, kind = next(value for value in given.values() if value is not None), site.made_type().dtype.numpy
    assert isinstance(words, tuple)
    return np.array([[X.get(word, "" if kind.kind == "O" else 0) for word in words]], kind)


def _cast_map(site: Site) -> Sequence[Made]:
    kind = {"TO_FLOAT": F32, "TO_STRING": STRING, "TO_INT64": I64}[site.text("cast_to")]
    width = Dim.of(site.integer("max_map")) if site["map_form"] == "SPARSE" else site.unknown("keys")
    return [ValueType(kind, (Dim.of(1), width))]


def _run_cast_map(X: dict[int, object], *, cast_to: str, map_form: str, max_map: int) -> Array:
    kind = {"TO_FLOAT": np.float32, "TO_STRING": object, "TO_INT64": np.int64}[cast_to]
    one: Mapping[str, type] = {"TO_FLOAT": float, "TO_STRING": str, "TO_INT64": int}
    found = [X[key] for key in sorted(X)]
    if map_form == "SPARSE":
        if any(not 0 <= key < max_map for key in X):
            raise ValueError(f"a key outside 0 to {max_map - 1}")
        found = [X.get(key, "" if kind is object else 0) for key in range(max_map)]
    return np.array([[one[cast_to](each) for each in found]], kind)


def _zipped(site: Site) -> Sequence[Made]:
    kind, size = labels(site, "classlabels_int64s", "classlabels_strings")
    if site.want_rank(0, 1, -1):
        site.agree(Dim.of(size), site.shape(0)[-1], "numbers of labels and of columns", 0)
    rows(site)
    return [ValueType(SEQUENCE, (), ValueType(MAP, (), ValueType(kind, (), ValueType(F32, ()))))]


def _run_zip(X: Array, **given: object) -> list[dict[object, object]]:
    names = next(value for value in given.values() if value is not None)
    assert isinstance(names, tuple)
    return [dict(zip(names, row.tolist(), strict=True)) for row in np.atleast_2d(X)]


# Models


def _classified(site: Site) -> Sequence[Made]:
    kind, size = labels(site, "classlabels_ints", "classlabels_strings")
    scored = count(site, "intercepts") if "intercepts" in site.attributes else 0
    return [ValueType(kind, (rows(site),)), (rows(site), Dim.of(max(size, scored, 1)))]


def _linear(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 1, 2):
        return [None]
    targets, size, columns = site.integer("targets"), count(site, "coefficients"), site.shape(0)[-1].constant
    good = columns is None or size == targets * columns
    want = f"{targets} · {columns}, targets and features"
    site.require(good, "attribute coefficients: number of elements", want=want, got=size)
    return [(rows(site), Dim.of(targets))]


def _vectors(site: Site) -> Sequence[Made]:
    number, size = site.integer("n_supports"), count(site, "support_vectors")
    site.require(not number or size % number == 0, "attribute support_vectors: number of elements",
                 want=f"a multiple of n_supports, {number}", got=size)  # fmt: skip
    return [(rows(site), Dim.of(1))]


NODES = ("nodes_featureids", "nodes_modes", "nodes_splits", "nodes_truenodeids", "nodes_falsenodeids",
         "nodes_trueleafs", "nodes_falseleafs")  # fmt: skip


def _trees(site: Site) -> Sequence[Made]:
    size, leaves = alike(site, *NODES), alike(site, "leaf_targetids", "leaf_weights")
    targets = site["n_targets"]
    whole = site.integers("leaf_targetids") or ()
    wide = targets if isinstance(targets, int) else max(whole, default=0) + 1
    for key, most in (
        ("tree_roots", size),
        ("leaf_targetids", wide),
        ("nodes_featureids", site.shape(0)[-1].constant if site.rank(0) else 1),
    ):
        bad = [each for each in site.integers(key) or () if most is not None and not 0 <= each < most]
        site.require(not bad, f"attribute {key} out of range", want=f"0 to {(most or 0) - 1}", got=bad[:4])
    for branch in ("true", "false"):
        places, leaf = (site.integers(f"nodes_{branch}{what}") or () for what in ("nodeids", "leafs"))
        bad = [
            n for n, is_leaf in zip(places, leaf, strict=False) if not 0 <= n < (leaves if is_leaf else size)
        ]
        site.require(
            not bad, f"attribute nodes_{branch}nodeids out of range", want="a node or a leaf", got=bad[:4]
        )
    return [(rows(site), Dim.of(wide))]


def _old_trees(site: Site) -> Sequence[Made]:
    alike(site, *(key for key in site.attributes if key.startswith("nodes_")))
    if "n_targets" in site.attributes:
        alike(site, "target_treeids", "target_nodeids", "target_ids")
        return [(rows(site), Dim.of(site.integer("n_targets") if site["n_targets"] else 1))]
    alike(site, "class_treeids", "class_nodeids", "class_ids")
    kind, size = labels(site, "classlabels_int64s", "classlabels_strings")
    return [ValueType(kind, (rows(site),)), (rows(site), Dim.of(size))]


SAME = "X's."
ULPS = Exactness("ulp", "C + 8", "sums in NumPy's order")


def _normalized(X: Array, *, norm: str) -> Array:
    values = X.astype(np.float64)
    if norm == "L2":
        size = np.sqrt(np.sum(values * values, -1, keepdims=True))
    elif norm == "L1":
        size = np.sum(np.abs(values), -1, keepdims=True)
    else:
        size = np.max(values, -1, keepdims=True)
    return (values / np.where(size == 0, 1, size)).astype(np.float32)


for _name, _rule, _formula, _shapes, _more in (
    ("ArrayFeatureExtractor", _extract, "Z = X[…, Y]", "X's, with the number of indices as the last; of a "
     "vector [1, that number].", {"reference": lambda X, Y: np.atleast_2d(X[..., Y.reshape(-1)])}),
    ("Binarizer", same, "Y = (X > threshold)", SAME,
     {"reference": lambda X, threshold: np.greater(X, threshold).astype(X.dtype)}),
    ("CastMap", _cast_map, "Y = the values of X by rising keys; SPARSE: at the places that these are",
     "[1, number of keys], SPARSE: [1, max_map].", {
        "reference": _run_cast_map, "ranges": {"cast_to": one_of("TO_FLOAT", "TO_STRING", "TO_INT64"),
                                               "map_form": one_of("DENSE", "SPARSE"), "max_map": POSITIVE}}),
    ("CategoryMapper", _mapped, "Y = the number of a string, or the string of a number; else the default",
     SAME, {"reference": _run_mapper}),
    ("DictVectorizer", _dictionary, "Y[0, i] = X[vocabulary[i]], 0 where X hasn't got it", "[1, vocabulary].",
     {"reference": _run_dictionary, "informed": True}),
    ("FeatureVectorizer", _vectorized, "Y = the inputs' columns side by side, cut or padded to their widths",
     "[N, sum of inputdimensions].", {"reference": _run_vectorizer}),
    ("Imputer", _imputed, "Y = X, with imputed_value in place of replaced_value", SAME,
     {"reference": _run_imputer}),
    ("LabelEncoder", _encoded, "Y = values[i] where X = keys[i], else the default", SAME,
     {"reference": _run_encoder}),
    ("Normalizer", same, "Y = X / the greatest, the sum of sizes or the root of the sum of squares of a row",
     SAME, {"reference": _normalized, "exactness": ULPS, "ranges": {"norm": one_of("MAX", "L1", "L2")}}),
    ("OneHotEncoder", _hot, "Y[…, i] = (X = cats[i])", "X's and the number of categories.",
     {"reference": _run_hot, "ranges": {"zeros": FLAG}}),
    ("Scaler", _scaled, "Y = (X − offset) · scale", SAME, {"reference": lambda X, offset, scale: (
        (X - np.float32(offset or 0)) * np.float32(scale or 1)).astype(np.float32)}),
    ("ZipMap", _zipped, "Z[n] = {label c: X[n, c]}", "A map for each row.", {"reference": _run_zip}),
    ("LinearClassifier", _classified, "Z = post_transform(X · coefficientsᵀ + intercepts), Y = the label of "
     "the greatest", ROWS, {"ranges": {"post_transform": TRANSFORM, "multi_class": FLAG}}),
    ("LinearRegressor", _linear, "Y = X · coefficientsᵀ + intercepts", "[N, targets].",
     {"ranges": {"post_transform": one_of("NONE"), "targets": POSITIVE}}),
    ("SVMClassifier", _classified, "Z = the sums of coefficients · kernel(X, support vectors) + rho, Y = the "
     "label with the most votes", ROWS, {"ranges": {"post_transform": TRANSFORM, "kernel_type": KERNEL}}),
    ("SVMRegressor", _vectors, "Y = Σ coefficients · kernel(X, support vectors) + rho", "[N, 1].",
     {"ranges": {"post_transform": one_of("NONE"), "kernel_type": KERNEL, "one_class": FLAG}}),
    ("TreeEnsemble", _trees, "Y[n, t] = the aggregate of the weights for t of the leaves that X[n] leads to",
     "[N, n_targets].", {"ranges": {"aggregate_function": Range(low=0, high=3), "n_targets": POSITIVE,
                                    "post_transform": Range(low=0, high=4)}}),
    ("TreeEnsembleClassifier", _old_trees, "Z = post_transform(the sums of the leaves' class weights), Y = "
     "the label of the greatest", ROWS, {"ranges": {"post_transform": TRANSFORM}}),
    ("TreeEnsembleRegressor", _old_trees, "Y = post_transform(the aggregate of the leaves' weights)",
     "[N, n_targets].", {"ranges": {"post_transform": TRANSFORM, "n_targets": POSITIVE,
                                    "aggregate_function": one_of("AVERAGE", "SUM", "MIN", "MAX")}}),
):  # fmt: skip
    define(f"{ML}.{_name}", _rule, formula=_formula, shapes=_shapes, **_more)
