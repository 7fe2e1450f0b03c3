"""Calls a subject in its own manner, with random weights, and reads its answer in our axes."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.attention.problem import GivenMask, Problem
from manyheads.core.errors import SubjectError
from manyheads.verify.findings import short
from manyheads.verify.parameters import Located, locate
from manyheads.verify.subject import CONVENTIONS, ParamSpec, Spec, Subject

_SPREAD = 1.2
_BIAS_SPREAD = 0.5


def drawn_arguments(params: ParamSpec, spec: Spec, seed: int) -> dict[str, Tensor]:
    """Weights and biases in float64 for a subject that takes them as arguments, by keyword.

    Args:
        params: the names of the arguments.
        spec: the declared sizes.
        seed: of the numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = {
        "q": spec.heads * spec.d,
        "k": spec.kv_heads * spec.d,
        "v": spec.kv_heads * spec.dv,
        "o": spec.width,
    }
    columns = {
        "q": spec.width,
        "k": spec.kdim or spec.width,
        "v": spec.vdim or spec.kdim or spec.width,
        "o": spec.heads * spec.dv,
    }
    drawn = {}
    for kind, name in params.names.items():
        weight = _normal(torch.Size((rows[kind], columns[kind])), generator)
        drawn[name] = weight * _SPREAD / columns[kind] ** 0.5
    for kind, name in params.biases.items():
        drawn[name] = _normal(torch.Size((rows[kind],)), generator) * _BIAS_SPREAD
    return drawn


def _normal(shape: torch.Size, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def randomise(module: nn.Module, seed: int) -> None:
    """Draw weights that show faults: scores of deviation about 1.5, biases that are not zero.

    Scalars and one-axis weights that are no biases (of norms, gates) are left as they are.

    Args:
        module: is changed in place.
        seed: of the numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    seen: set[int] = set()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if id(parameter) in seen or not parameter.is_floating_point():
                continue
            seen.add(id(parameter))
            if parameter.dim() >= 2:
                owner = module.get_submodule(name.rpartition(".")[0])
                drawn = _normal(parameter.shape, generator)
                parameter.copy_(drawn * _SPREAD / _fan_in(owner, parameter) ** 0.5)
            elif parameter.dim() == 1 and (_is_bias(name, parameter) or _is_garbage(parameter)):
                parameter.copy_(_normal(parameter.shape, generator) * _BIAS_SPREAD)


def _fan_in(owner: nn.Module, parameter: Tensor) -> float:
    if isinstance(owner, nn.Linear | nn.Conv1d | nn.MultiheadAttention):
        return float(parameter.shape[1])
    if isinstance(owner, nn.Embedding):
        return 1.0
    narrow, wide = sorted(parameter.shape[-2:])
    return float(narrow) if wide % narrow == 0 else math.sqrt(narrow * wide)


def _is_bias(name: str, parameter: Tensor) -> bool:
    last = name.rpartition(".")[2]
    return (
        "bias" in last
        or last.startswith("b_")
        or last in ("bq", "bk", "bv", "bo")
        or bool((parameter == 0).all())
    )


def _is_garbage(parameter: Tensor) -> bool:
    """Whether a parameter was never given numbers: `torch.empty` leaves what was in memory."""
    sizes = parameter.detach().double().abs()
    strange = (sizes > 1e6) | ((sizes < 1e-20) & (sizes > 0)) | ~torch.isfinite(sizes)
    return bool(strange.any())


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a subject gave for one problem, in our order of axes."""

    output: Tensor | None = None
    """(B, T, D), or (B, H, T, v) where the inputs are heads; None where the call raised."""
    attn_weights: Tensor | None = None
    """Returned weights, (B, H, T, S) or (B, T, S), if any."""
    raised: str | None = None
    """Type and first line of the exception, if any."""
    raw: object = None
    """The answer as it came."""
    inputs: tuple[Tensor, ...] = ()
    """The tensors that were handed over, in the callee's order of axes."""
    given_masks: dict[str, Tensor] = field(default_factory=dict)
    """The masks that were handed over, by keyword."""


def to_callee(x: Tensor, layout: str) -> Tensor:
    """(B, T, E) in the callee's order of axes, in memory of its own."""
    turned = {"BTE": x, "TBE": x.transpose(0, 1), "BET": x.transpose(1, 2)}[layout]
    return turned.contiguous() if layout != "BTE" else turned.clone()


def from_callee(x: Tensor, layout: str) -> Tensor:
    """The callee's order of axes back to (B, T, E)."""
    if x.dim() != 3:
        return x
    return {"BTE": x, "TBE": x.transpose(0, 1), "BET": x.transpose(1, 2)}[layout]


def mask_for_callee(
    mask: GivenMask, batch: int, queries: int, heads: int, dtype: torch.dtype
) -> Tensor:
    """A mask in the axes and convention that the callee declares."""
    allowed = mask.allowed
    keys = allowed.shape[-1]
    if mask.convention == "lengths" or mask.axes in ("BS", "B"):
        shaped = allowed[:, 0]
    elif mask.axes == "TS":
        shaped = allowed[0].expand(queries, keys)
    else:
        shaped = allowed.expand(batch, queries, keys)
        if mask.axes == "B1TS":
            shaped = shaped[:, None]
        elif mask.axes == "(BH)TS":
            shaped = shaped.repeat_interleave(heads, dim=0)
    convention = "lengths" if mask.axes == "B" else mask.convention
    return CONVENTIONS[convention](shaped, dtype)


def read_answer(answer: object) -> tuple[Tensor | None, Tensor | None, object]:
    """Output, weights and cache from a tensor, tuple, list, dict or model-output object."""
    if isinstance(answer, Tensor):
        return answer, None, None
    if isinstance(answer, Mapping):
        items = list(answer.values())
    elif isinstance(answer, tuple | list):
        items = list(answer)
    elif hasattr(answer, "__dict__"):
        items = list(vars(answer).values())
    else:
        return None, None, None
    tensors = [item for item in items if isinstance(item, Tensor)]
    output = tensors[0] if tensors else None
    weights = next((t for t in tensors[1:] if t.dim() >= 3), None)
    return output, weights, items[1] if len(items) > 1 else None


class Callee:
    """A built subject in one dtype and mode, with its weights located.

    Args:
        made: the module or function.
        subject: fully declared or inferred.
        dtype: of parameters and inputs.
        seed: of the weights that are drawn where the subject takes them as arguments.
    """

    def __init__(
        self,
        made: nn.Module | Callable[..., Any],
        subject: Subject,
        dtype: torch.dtype,
        seed: int = 0,
    ) -> None:
        self.subject, self.dtype = subject, dtype
        self.is_module = isinstance(made, nn.Module)
        self.made = copy.deepcopy(made) if self.is_module else made
        if isinstance(self.made, nn.Module):
            self.made.eval()
        self.arguments: dict[str, Tensor] = {}
        if subject.params is not None and subject.params.layout == "args":
            self.arguments = {
                name: drawn.to(dtype).requires_grad_()
                for name, drawn in drawn_arguments(subject.params, subject.spec, seed).items()
            }

    def in_dtype(self, dtype: torch.dtype) -> "Callee":
        """The same weights in another dtype.

        Raises:
            Exception: whatever the module raises when it is converted.
        """
        other = Callee(self.made, self.subject, dtype)
        if isinstance(other.made, nn.Module):
            other.made.to(dtype)
            _convert_unregistered(other, dtype)
            other.made.train(self.made.training if isinstance(self.made, nn.Module) else False)
        other.arguments = {
            n: t.detach().to(dtype).requires_grad_() for n, t in self.arguments.items()
        }
        return other

    def fresh(self) -> "Callee":
        """A copy that shares nothing with this one."""
        return self.in_dtype(self.dtype)

    @property
    def module(self) -> nn.Module | None:
        """The module, None for a function."""
        return self.made if isinstance(self.made, nn.Module) else None

    @property
    def root(self) -> object:
        """What holds the weights: the subject, or the weight arguments of its calls."""
        return SimpleNamespace(**self.arguments) if self.arguments else self.made

    def located(self) -> Located | None:
        """The weights, read again so that gradients flow; None where they are not declared.

        Raises:
            SubjectError: the declaration does not fit.
        """
        if self.subject.params is None:
            return None
        return locate(self.root, self.subject.params, self.subject.spec)

    def call(self, problem: Problem, **extra: object) -> Outcome:
        """Call the subject with a problem; an exception becomes part of the outcome.

        Args:
            problem: inputs and masks in our convention.
            **extra: further keywords, such as a flag.
        """
        layout = self.subject.call.layout or "BTE"
        inputs = self._inputs(problem, layout)
        masks = self._masks(problem)
        keywords: dict[str, object] = {
            **self.subject.call.extra,
            **masks,
            **self.arguments,
            **extra,
        }
        causal = self.subject.call.causal_arg
        if causal is not None:
            keywords.setdefault(causal, problem.is_causal)
        kept = tuple(x.clone() for x in inputs)
        try:
            output, weights, raw = self._answer(problem, inputs, keywords)
        except (Exception, SystemExit) as error:
            return Outcome(raised=short(error), inputs=kept, given_masks=masks)
        if output is None:
            return Outcome(
                raised="TypeError: the result has no tensor",
                raw=raw,
                inputs=kept,
                given_masks=masks,
            )
        output = output if self.subject.call.form == "heads" else from_callee(output, layout)
        return Outcome(
            output=output, attn_weights=weights, raw=raw, inputs=inputs, given_masks=masks
        )

    def _inputs(self, problem: Problem, layout: str) -> tuple[Tensor, ...]:
        given = (problem.x_q, problem.x_k, problem.x_v)
        if self.subject.call.form == "heads":
            return tuple(x.to(self.dtype).clone() for x in given)
        count = {"cross": 2, "qkv": 3}.get(self.subject.call.form or "self", 1)
        made: list[Tensor] = []
        for i, x in enumerate(given[:count]):
            same = next((made[j] for j in range(i) if given[j] is x), None)
            made.append(to_callee(x.to(self.dtype), layout) if same is None else same)
        return tuple(made)

    def _masks(self, problem: Problem) -> dict[str, Tensor]:
        specs = self.subject.call.masks or ()
        queries, found = problem.x_q.shape[-2], {}
        for spec in specs:
            for mask in problem.masks:
                if (mask.axes, mask.convention) == (
                    spec.axes,
                    spec.convention,
                ) and spec.arg not in found:
                    kind = self.subject.extras.mask_dtype or self.dtype
                    found[spec.arg] = mask_for_callee(
                        mask, problem.batch, queries, problem.num_heads, kind
                    )
                    break
        return found

    def _answer(
        self, problem: Problem, inputs: tuple[Tensor, ...], keywords: dict[str, object]
    ) -> tuple[Tensor | None, Tensor | None, object]:
        if self.subject.call.form not in ("cache", "static_cache"):
            raw = self.made(*inputs, **keywords)
            output, weights, _ = read_answer(raw)
            return output, weights, raw
        return self._in_pieces(problem, inputs[0], keywords)

    def _in_pieces(
        self, problem: Problem, x: Tensor, keywords: dict[str, object]
    ) -> tuple[Tensor | None, Tensor | None, object]:
        axis = {"BTE": 1, "TBE": 0, "BET": 2}[self.subject.call.layout or "BTE"]
        cache: object = None
        start, parts, weights = 0, [], None
        raw: object = None
        for length in problem.chunks or (x.shape[axis],):
            piece = x.narrow(axis, start, length).clone()
            if self.subject.call.form == "cache":
                raw = self.made(piece, cache, **keywords)
                output, weights, cache = read_answer(raw)
            else:
                raw = self.made(piece, start, **keywords)
                output, weights, _ = read_answer(raw)
            if output is None:
                return None, None, raw
            parts.append(output)
            start += length
        return torch.cat(parts, dim=axis), weights, raw


def _convert_unregistered(callee: Callee, dtype: torch.dtype) -> None:
    """Bring weights that the module does not register to a dtype; a check reports them."""
    located, module = callee.located(), callee.module
    if located is None or module is None:
        return
    known = {id(p) for p in module.parameters()}
    for tensor in located.tensors.values():
        if id(tensor) not in known and tensor.is_leaf:
            tensor.data = tensor.data.to(dtype)


def prepared(made: nn.Module | Callable[..., Any], subject: Subject, seed: int = 0) -> Callee:
    """A callee in float64, weights drawn at random, in evaluation mode.

    Raises:
        SubjectError: the module cannot be copied or converted.
    """
    try:
        callee = Callee(made, subject, torch.float64, seed)
        if callee.module is not None:
            callee.module.to(torch.float64)
            randomise(callee.module, seed)
            _convert_unregistered(callee, torch.float64)
    except (Exception, SystemExit) as error:
        raise SubjectError(
            f"target ({subject.target}): cannot be copied or converted: {short(error)}"
        ) from error
    return callee
