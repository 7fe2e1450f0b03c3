"""Do gradients reach the inputs and every projection, and are all parameters registered?"""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.attention.problem import Problem
from manyheads.core.weights import HeadWeights
from manyheads.verify.context import RIGHT, Context
from manyheads.verify.findings import READING, Finding, found, short
from manyheads.verify.infer_names import role_of
from manyheads.verify.locating import is_cut, locate_operation
from manyheads.verify.origins import Found
from manyheads.verify.parameters import Located


def _reference(
    problem: Problem, heads: HeadWeights | None, inputs: list[Tensor], probe: Tensor
) -> Tensor:
    x_q, x_k, x_v = inputs
    answer = RIGHT.run(replace(problem, x_q=x_q, x_k=x_k, x_v=x_v, weights=heads))
    return (answer.output * probe).sum()


def _leaves(problem: Problem) -> list[Tensor]:
    """Inputs that record gradients; one tensor where one was given."""
    first = problem.x_q.clone().requires_grad_()
    second = first if problem.x_k is problem.x_q else problem.x_k.clone().requires_grad_()
    third = first if problem.x_v is problem.x_q else second if problem.x_v is problem.x_k else None
    return [first, second, problem.x_v.clone().requires_grad_() if third is None else third]


def check_gradients(ctx: Context) -> None:
    """Gradients of inputs and weights against autograd through the formula."""
    if ctx.values_are_wrong:
        ctx.skipped("gradients", "the values differ already")
        return
    if ctx.subject.call.form == "static_cache":
        ctx.skipped("gradients", "a cache in buffers of the module is for inference")
        return
    located = None if ctx.located is None else ctx.callee.located()
    if located is None:
        ctx.skipped("gradients", "the weights are not known")
        return
    problem = ctx.maker.plain(2, 6, seed=50)
    leaves = _leaves(problem)
    own = replace(problem, x_q=leaves[0], x_k=leaves[1], x_v=leaves[2])
    with torch.enable_grad():
        outcome = ctx.callee.call(own)
    if outcome.output is None or not outcome.output.requires_grad:
        _no_graph(ctx, outcome.raised)
        return
    targets = {f"input {i + 1}": leaf for i, leaf in enumerate(dict.fromkeys(leaves))}
    targets |= {n: t for n, t in located.tensors.items() if t.requires_grad}
    probe = _probe(outcome.output)
    try:
        mine = _gradients((outcome.output * probe).sum(), targets)
    except RuntimeError as error:
        says = f"the backward pass raises {short(error)}"
        fix = "do not change tensors in place that autograd still needs"
        ctx.failed("gradients", found(None, "gradients", says, fix=fix))
        return
    with torch.enable_grad():
        loss = _reference(problem, _heads_in_float64(ctx), leaves, probe.double())
    _compare(ctx, list(targets), mine, _gradients(loss, targets))


def _probe(output: Tensor) -> Tensor:
    """Random numbers that turn an output into one number whose gradient tells all."""
    generator = torch.Generator().manual_seed(51)
    probe = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    return probe.to(output.dtype)


def _gradients(loss: Tensor, targets: dict[str, Tensor]) -> tuple[Tensor | None, ...]:
    return torch.autograd.grad(loss, list(targets.values()), allow_unused=True)


def _heads_in_float64(ctx: Context) -> HeadWeights | None:
    """The subject's weights, read again, through which gradients flow."""
    located = ctx.callee.located()
    assert located is not None
    if located.heads is None:
        return None
    return HeadWeights(**{n: t.double() for n, t in located.heads.tensors().items()})


def _no_graph(ctx: Context, raised: str | None) -> None:
    if raised is not None:
        ctx.skipped("gradients", f"the call raises {raised}")
        return
    says = "no gradient reaches the inputs or any parameter: nothing can be trained through it"
    ctx.failed("gradients", found("gradient-cut", "gradients", says))


def _known_part(ctx: Context, expected: Tensor, actual: Tensor) -> Tensor:
    """The gradient of a parameter where the formula knows it.

    Weights that are computed from parameters may use further entries.
    """
    params = ctx.subject.params
    if params is None or params.found is None:
        return actual
    weights = {"w_q", "w_k", "w_v"} | ({"w_o"} if params.found.has_out else set())
    is_whole = weights <= params.found.origins.keys()
    return actual if is_whole else torch.where(expected == 0, expected, actual)


def _compare(
    ctx: Context,
    names: list[str],
    mine: tuple[Tensor | None, ...],
    theirs: tuple[Tensor | None, ...],
) -> None:
    sizes = [float(g.abs().max()) for g in theirs if g is not None and g.numel()]
    largest = max(sizes, default=1.0) or 1.0
    worst, limit = 0.0, max(ctx.tolerance * 100, 1e-9)
    cut: dict[str, float] = {}
    other: dict[str, float] = {}
    for name, have, want in zip(names, mine, theirs, strict=True):
        expected = torch.zeros(()) if want is None else want
        actual = torch.zeros_like(expected) if have is None else have
        actual = actual if name.startswith("input ") else _known_part(ctx, expected, actual)
        gap = float((actual - expected).abs().max()) / largest
        worst = max(worst, gap if gap == gap else float("inf"))
        if gap <= limit:
            continue
        has_none = have is None or not bool(have.abs().max() > limit * largest * 1e-3)
        (cut if has_none else other)[name] = gap
    if not cut and not other:
        ctx.passed("gradients", f"gradients of {len(names)} tensors agree with the formula", worst)
    elif cut:
        text, fate = ", ".join(cut), "it will not be trained"
        says = f"no gradient reaches {text}, though the output depends on it: {fate}"
        where = locate_operation(ctx, ctx.maker.plain(2, 6, seed=50), "k", is_cut)
        finding = found("gradient-cut", "gradients", says, where=where, tensors=list(cut))
        ctx.failed("gradients", finding, worst)
    else:
        name, gap = max(other.items(), key=lambda item: item[1])
        says = (
            f"the forward pass agrees with the formula, but the gradient of {name} differs by "
            f"{gap:.3g} of the largest gradient ({len(other)} of {len(names)} tensors differ)"
        )
        where = locate_operation(ctx, ctx.maker.plain(2, 6, seed=50), "k", is_cut)
        partial = found(
            "gradient-cut", "gradients", says, where=where, tensors=list(other), gap=gap
        )
        ctx.failed("gradients", partial, worst)


def check_registration(ctx: Context) -> None:
    """Every located weight must be found by parameters() and state_dict()."""
    module, located = ctx.callee.module, ctx.located
    if module is None or located is None or not located.tensors or ctx.callee.arguments:
        ctx.skipped("registration", "no module with located weights")
        return
    known = {id(p) for p in module.parameters()}
    lost = [name for name, tensor in located.tensors.items() if id(tensor) not in known]
    if lost:
        says = (
            f"{len(lost)} of {len(located.tensors)} weight tensors "
            f"({', '.join(lost[:4])}{' ...' if len(lost) > 4 else ''}) are missing from "
            "parameters() and state_dict(): an optimizer never sees them and saving loses them"
        )
        ctx.failed(
            "registration", found("unregistered-parameters", "registration", says, missing=lost)
        )
        return
    ctx.passed(
        "registration",
        f"all {len(located.tensors)} weight tensors are in parameters() and state_dict()",
    )


def check_unused(ctx: Context) -> None:
    """Every projection must take part where another one does its work instead.

    A layer whose name says query, key, value or output and that has no effect is an error if the
    weights of that kind were found elsewhere.
    """
    module, params = ctx.callee.module, ctx.subject.params
    found_by = None if params is None else params.found
    held = ctx.callee.arguments if module is None else dict(module.named_parameters())
    if not held or found_by is None:
        return
    problem = ctx.maker.plain(2, 6, seed=52)
    named = {n: p for n, p in held.items() if p.requires_grad and p.dim() >= 1}
    for name, parameter in named.items():
        finding = _unused(name, parameter, found_by, ctx.located)
        if finding is not None and _has_no_effect(ctx, parameter, problem):
            ctx.failed("all parameters used", finding)
            return
    for finding in (_one_for_two(ctx, found_by, named), _exchanged(found_by)):
        if finding is not None:
            ctx.failed("all parameters used", finding)
            return
    ctx.passed("all parameters used", "every projection takes part in the output")


def _has_no_effect(ctx: Context, parameter: Tensor, problem: Problem) -> bool:
    """Whether the output stays as it is when a parameter is changed."""
    kept = parameter.detach().clone()
    with torch.no_grad():
        before = ctx.callee.call(problem).output
        parameter.add_(torch.linspace(0.0, 1.0, parameter.numel()).view_as(parameter))
        after = ctx.callee.call(problem).output
        parameter.copy_(kept)
    return before is not None and after is not None and torch.equal(before, after)


def _unused(
    name: str, parameter: Tensor, found_by: Found, located: Located | None
) -> Finding | None:
    """What an unused parameter means, if anything."""
    path, _, last = name.rpartition(".")
    if parameter.dim() == 1:
        weight = f"{path}.weight"
        if last == "bias" and weight in found_by.tensors:
            says = f"{name} is stored but not used, while {weight} is"
            return found("bias-dropped", "all parameters used", says)
        return None
    role = role_of(path if last in ("weight", "bias") else name)
    if role == "o" and located is not None and not located.has_out:
        says = f"{name} takes no part: the joined heads are returned without it"
        return found("output-projection-missing", "all parameters used", says)
    origin = found_by.origins.get(f"w_{role}")
    used = () if origin is None else origin.names
    if role not in ("q", "k", "v") or any(role_of(n.removesuffix(".weight")) == role for n in used):
        return None
    words = {"q": "queries", "k": "keys", "v": "values"}[role]
    made = f"made by {', '.join(used)}" if used else "the input as it is"
    fault = "value-projection-unused" if role == "v" and not used else "wrong-tensor"
    says = f"{name} takes no part: {words} are {made}"
    return found(fault, "all parameters used", says)


_MADE = {"w_q": "queries", "w_k": "keys", "w_v": "values", "w_o": "the output"}


def _one_for_two(ctx: Context, found_by: Found, named: Mapping[str, Tensor]) -> Finding | None:
    """Two steps made by the same weights, while weights of a third place are not used."""
    entries = {n: o.entries.unique() for n, o in found_by.origins.items() if n in _MADE}
    pairs = itertools.combinations(entries, 2)
    same = [(a, b) for a, b in pairs if torch.equal(entries[a], entries[b])]
    if not same:
        return None
    problem, used = ctx.maker.plain(2, 6, seed=52), found_by.tensors
    others = {n: p for n, p in named.items() if p.dim() > 1 and n not in used}
    idle = [n for n, p in others.items() if _has_no_effect(ctx, p, problem)]
    size = sum(named[n].numel() for n in used if n in named and named[n].dim() > 1)
    free = size - sum(map(len, {tuple(x.tolist()) for x in entries.values()}))
    if free <= 0 and not idle:
        return None
    one, two = same[0]
    names = ", ".join(found_by.origins[one].names)
    rest = f"without effect: {', '.join(idle)}" if idle else f"{free} of its numbers are not used"
    says = f"{_MADE[one]} and {_MADE[two]} are made by the same weights, {names}; {rest}"
    return found("wrong-tensor", "all parameters used", says)


def _said(found_by: Found, role: str) -> str | None:
    """The role that the names of the weights of a role say."""
    origin = found_by.origins.get(f"w_{role}")
    roles = set() if origin is None else {role_of(n.removesuffix(".weight")) for n in origin.names}
    return roles.pop() if len(roles) == 1 else None


def _exchanged(found_by: Found) -> Finding | None:
    """Two projections, each of which does what the name of the other says."""
    said = {role: _said(found_by, role) for role in "qkv"}
    for one, two in itertools.combinations("qkv", 2):
        if said[one] == two and said[two] == one:
            first, second = (_MADE[f"w_{r}"] for r in (one, two))
            layers = ", ".join(found_by.origins[f"w_{one}"].names)
            says = f"{first} are made by {layers}, and {second} by the layer named for {first}"
            fault = "key-value-swapped" if one == "k" else "wrong-tensor"
            return found(fault, READING, says, severity="warning")
    return None


def _turned(ctx: Context) -> Finding | None:
    """Weights that a function takes as (in, out), and others as (out, in)."""
    params = ctx.subject.params
    if params is None or params.found is None or params.layout != "args":
        return None
    kinds: dict[bool, list[str]] = {}
    for origin in params.found.origins.values():
        if origin.entries.dim() == 3 and origin.entries.shape[-1] > 1:
            is_in_out = int(origin.entries[0, 0, 1] - origin.entries[0, 0, 0]) == 1
            kinds.setdefault(is_in_out, []).extend(origin.names)
    if len(kinds) < 2:
        return None
    says = f"{', '.join(kinds[True])} are used as (in, out), and {', '.join(kinds[False])} as "
    fix = "use all weights in one order of axes, or declare params"
    says += "(out, in)"
    return found("weight-transposed", READING, says, severity="warning", fix=fix)


def _is_one_head(ctx: Context) -> bool:
    """Whether all heads were seen to make queries with the same weights."""
    params = ctx.subject.params
    origin = None if params is None or params.found is None else params.found.origins.get("w_q")
    heads = 1 if origin is None else len(origin.entries)
    return origin is not None and heads > 1 and len(origin.entries.flatten(1).unique(dim=0)) == 1


def check_sharing(ctx: Context) -> None:
    """Heads must hold weights of their own and read the full width of the input."""
    located = ctx.located
    if located is None:
        return
    turned = _turned(ctx)
    if turned is not None:
        ctx.failed("order of axes", turned)
    spec = ctx.subject.spec
    if located.shared or _is_one_head(ctx):
        says = (
            f"all {spec.heads} heads are the same object and hold one set of weights, so they all "
            "give the same output"
        )
        ctx.failed("own weights", found("heads-share-parameters", "own weights", says))
    if located.reads_slices:
        says = (
            f"each head's layers take {spec.width // spec.heads} of the {spec.width} input "
            "channels: a head reads only its slice of the input"
        )
        severity = ctx.against_declared
        finding = found("heads-read-input-slices", "full width", says, severity=severity)
        ctx.failed("full width", finding)
