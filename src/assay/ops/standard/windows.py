"""Windows that move over the last dimensions: the attributes that convolutions and poolings share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from assay.graph.dim import Dim, greatest
from assay.kernels.conv_sizes import Spatial
from assay.ops.standard.definition import POSITIVE, Range, one_of
from assay.ops.standard.site import Shape, Site

MOST = 1 << 20
"""Elements of a window."""
RANGES: dict[str, Range] = {
    "auto_pad": one_of("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "strides": POSITIVE,
    "dilations": POSITIVE,
    "kernel_shape": Range(low=1, high=1 << 16),
}


@dataclass(frozen=True)
class Window:
    """A window's sizes, steps and pads, a number for each spatial dimension, and how often it fits."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[Dim, ...]
    after: tuple[Dim, ...]
    output: Shape

    def spatial(self, sizes: Sequence[int]) -> Spatial:
        """In a specialised graph, for kernels."""
        before = [int(str(dim)) for dim in self.before]
        output = [int(str(dim)) for dim in self.output]
        return Spatial(tuple(sizes), self.size, self.strides, self.dilations, before, output)


def lists(site: Site, dims: int) -> dict[str, tuple[int, ...]] | None:
    """strides, dilations and pads with their defaults; a violation where one has the wrong length, or where
    there are more dimensions than kernels have.
    """
    if not site.require(dims <= 3, "too many spatial axes", want="at most 3", got=dims, input=0):
        return None
    found: dict[str, tuple[int, ...]] = {}
    for key, default, count in (("strides", 1, dims), ("dilations", 1, dims), ("pads", 0, 2 * dims)):
        given = site.integers(key) if key in site.attributes else None
        value = (default,) * count if given is None else given
        if not site.require(
            len(value) == count, f"attribute {key}: wrong length", want=f"{count}", got=list(value)
        ):
            return None
        found[key] = value
    return found


def weights_window(site: Site) -> tuple[int, ...] | None:
    """The sizes of a convolution's window, those of input 1; None where they aren't known, or wrong."""
    if not (site.want_rank(0, 3, -1) and site.want_rank(1, site.rank(0))):
        return None
    spatial, given = site.shape(1)[2:], site.integers("kernel_shape")
    sizes = [dim.constant for dim in spatial] if given is None else list(given)
    rule, want = "window of another rank", f"{len(spatial)} sizes"
    if site.require(len(sizes) == len(spatial), rule, want=want, got=sizes):
        for axis, (dim, size) in enumerate(zip(spatial, sizes, strict=True), start=2):
            good, want = None if size is None else dim.equals(size), f"{dim} at axis {axis}"
            site.require(good, "kernel_shape isn't the weights'", want=want, got=size, input=1)
    found = tuple(size for size in sizes if size is not None)
    return None if site.problems or len(found) < len(sizes) else found


def window(site: Site, spatial: Shape, size: tuple[int, ...], ceil: bool = False) -> Window | None:
    """The window over an input of these sizes. None where attributes contradict each other."""
    dims = len(spatial)
    if not site.require(len(size) == dims, "window of another rank", want=f"{dims} sizes", got=list(size)):
        return None
    given = lists(site, dims)
    site.require(prod(size) <= MOST, "window too large", want=f"at most {MOST} elements", got=list(size))
    if given is None:
        return None
    strides, dilations, pads = given["strides"], given["dilations"], given["pads"]
    mode = site.text("auto_pad")
    before, after, output = list[Dim](), list[Dim](), list[Dim]()
    for axis, dim in enumerate(spatial):
        reach = dilations[axis] * (size[axis] - 1) + 1
        stride = strides[axis]
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            count = -(-dim // stride)
            total = greatest((count - 1) * stride + reach - dim, 0)
            less, more = total // 2, total - total // 2
            low, high = (less, more) if mode == "SAME_UPPER" else (more, less)
        else:
            low, high = (Dim.of(pads[axis + side] if mode == "NOTSET" else 0) for side in (0, dims))
            room = dim + low + high - reach
            site.require(
                None if room.sign is None else room.sign >= 0, "the window is larger than the padded input",
                want=f"at least {reach} at axis {axis + 2}", got=f"{dim + low + high} in {site.type(0)}",
                input=0, dim=dim,
            )  # fmt: skip
            count = (-(-room // stride) if ceil else room // stride) + 1
            if ceil and (dim + low).constant is not None and count.constant is not None:
                # A last window that would begin in the padding behind doesn't count.
                count = count - int((count.constant - 1) * stride >= ((dim + low).constant or 0))
        before.append(low)
        after.append(high)
        output.append(count)
    return Window(tuple(size), strides, dilations, tuple(before), tuple(after), tuple(output))
