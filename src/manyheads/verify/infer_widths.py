"""Head width, key/value heads and input widths that follow from the shapes under a reading."""

from dataclasses import replace

from torch import nn

from manyheads.verify.infer_inventory import Inventory, Item
from manyheads.verify.infer_names import Stranger
from manyheads.verify.parameters import attribute
from manyheads.verify.subject import ParamSpec, Spec

Sizes = tuple[int, int, int, int, int]
"""Head width, key/value heads, value width, widths of key and value input."""


def sized_spec(made: Stranger, inventory: Inventory, params: ParamSpec, spec: Spec) -> Spec | None:
    """The sizes that follow from the shapes under a reading, None where they do not fit."""
    if params.layout == "mha":
        return _sized_mha(attribute(made, params.names["module"]), spec)
    items = {item.path: item for item in inventory.items}
    of = {kind: items[path] for kind, path in params.names.items()}
    try:
        return _sized(params, of, spec)
    except (ZeroDivisionError, ValueError):
        return None


def _sized_mha(module: nn.MultiheadAttention, spec: Spec) -> Spec:
    changes: dict[str, int] = {}
    if module.kdim != module.embed_dim:
        changes["kdim"] = module.kdim
    if module.vdim != (module.kdim or module.embed_dim):
        changes["vdim"] = module.vdim
    kdim, vdim = changes.get("kdim"), changes.get("vdim")
    return replace(spec, kdim=spec.kdim or kdim, vdim=spec.vdim or vdim)


def _sized(params: ParamSpec, of: dict[str, Item], spec: Spec) -> Spec | None:
    if params.layout in ("packed", "packed_per_head"):
        sizes = _packed_sizes(params, of, spec)
    elif params.layout == "packed_kv":
        sizes = _kv_sizes(of, spec)
    else:
        sizes = _separate_sizes(params, of, spec)
    if sizes is None:
        return None
    d, groups, dv, kdim, vdim = sizes
    out = of.get("o")
    if out is not None and not _out_fits(params, out, spec, dv):
        return None
    if spec.heads % groups:
        return None
    return replace(
        spec,
        head_dim=d,
        num_kv_heads=groups,
        v_head_dim=None if dv == d else dv,
        kdim=spec.kdim if spec.kdim or kdim == spec.width else kdim,
        vdim=spec.vdim if spec.vdim or vdim == kdim else vdim,
    )


def _whole(number: int, divisor: int) -> int:
    if divisor <= 0 or number % divisor or number < divisor:
        raise ValueError
    return number // divisor


def _separate_sizes(params: ParamSpec, of: dict[str, Item], spec: Spec) -> Sizes | None:
    q, k, v = of["q"], of["k"], of["v"]
    if params.layout == "per_head_tensors":
        heads, width, d = q.shape
        is_narrow = width * spec.heads == spec.width and spec.heads > 1
        if heads != spec.heads or (width != spec.width and not is_narrow):
            return None
        widths = (spec.width, spec.width) if is_narrow else (k.shape[1], v.shape[1])
        return d, k.shape[0], v.shape[2], *widths
    if params.layout == "per_head_modules":
        narrow = q.columns * spec.heads == spec.width and spec.heads > 1
        if not narrow and q.columns != spec.width:
            return None
        kdim = spec.width if narrow else k.columns
        return q.rows, k.count, v.rows, kdim, spec.width if narrow else v.columns
    turned = params.layout == "in_out"
    rows = {
        kind: item.columns if turned else item.rows for kind, item in (("q", q), ("k", k), ("v", v))
    }
    columns = {
        kind: item.rows if turned else item.columns for kind, item in (("q", q), ("k", k), ("v", v))
    }
    is_slice = columns["q"] * spec.heads == spec.width and spec.heads > 1
    if is_slice and rows["q"] == columns["q"]:
        return rows["q"], spec.heads, rows["v"], spec.width, spec.width
    if columns["q"] != spec.width:
        return None
    d = spec.head_dim or _whole(rows["q"], spec.heads)
    groups = spec.num_kv_heads or _whole(rows["k"], d)
    return d, groups, spec.v_head_dim or _whole(rows["v"], groups), columns["k"], columns["v"]


def _kv_sizes(of: dict[str, Item], spec: Spec) -> Sizes | None:
    d = spec.head_dim or _whole(of["q"].rows, spec.heads)
    dv = spec.v_head_dim or d
    groups = spec.num_kv_heads or _whole(of["kv"].rows, d + dv)
    return (
        (d, groups, dv, of["kv"].columns, of["kv"].columns)
        if of["q"].columns == spec.width
        else None
    )


def _packed_sizes(params: ParamSpec, of: dict[str, Item], spec: Spec) -> Sizes | None:
    item, out = of["qkv"], of.get("o")
    rows = item.rows if item.columns == spec.width else item.columns
    if spec.width not in (item.rows, item.columns):
        return None
    d, groups = spec.head_dim, spec.num_kv_heads
    if d is None and groups is None and spec.width % spec.heads and out is not None:
        dv = _whole(out.columns, spec.heads)  # nothing divides, so values have a width of their own
        return (
            _whole(rows - spec.heads * dv, 2 * spec.heads),
            spec.heads,
            dv,
            spec.width,
            spec.width,
        )
    if d is None and groups is not None:
        d = _whole(rows, spec.heads + 2 * groups)
    if d is None:
        equal = rows % (3 * spec.heads) == 0 and (
            out is None or out.columns * 3 == rows or out.rows * 3 == rows
        )
        d = rows // (3 * spec.heads) if equal else _whole(spec.width, spec.heads)
    if groups is None:
        groups = _whole(rows - spec.heads * d, 2 * d)
    if params.layout == "packed_per_head" and groups != spec.heads:
        return None
    return d, groups, spec.v_head_dim or d, spec.width, spec.width


def _out_fits(params: ParamSpec, out: Item, spec: Spec, dv: int) -> bool:
    if out.count > 1:
        return dv in out.shape
    if len(out.shape) == 3 and out.shape[-1] != 1:
        return out.shape[:2] == (spec.heads, dv)
    return spec.heads * dv in (out.rows, out.columns) or out.columns * spec.heads == spec.width
