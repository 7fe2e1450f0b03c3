"""Part 4 of the lab: a random model in double precision, computed four ways."""

from functools import cached_property, partial

import torch
from torch import Tensor, nn

from manyheads.attention.module import MultiHeadAttention
from manyheads.core.compare import difference, dot_budget
from manyheads.core.config import Form
from manyheads.core.errors import LabError
from manyheads.core.weights import HeadWeights
from manyheads.learn.lab.record import AtMost, Equals, Record

BATCH, LENGTH, WIDTH, HEADS = 2, 5, 12, 3
"""All sizes differ, so that a swapped axis is detected."""
PRODUCTS = 512
"""Upper bound on the products in one gradient: twice through widths 12, 4, 5 and 12."""
ROUNDING = 32 * dot_budget(PRODUCTS, torch.float64)
"""The numbers stay below 32, so a difference up to this can be rounding."""
COLUMNS = ("packed", "fused", "nn.MultiheadAttention")
Results = dict[str, Tensor]


class RandomModel:
    """One random layer and input, run by every form and by PyTorch, forward and backward."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(11)
        self.layer = MultiHeadAttention(WIDTH, HEADS, dtype=torch.float64)
        self.x, self.direction = (
            torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64, generator=generator)
            for _ in range(2)
        )
        with torch.no_grad():
            for parameter in self.layer.parameters():
                parameter.normal_(std=0.5, generator=generator)

    @cached_property
    def loop(self) -> Results:
        """The reference."""
        return self.run_form("loop")

    @cached_property
    def packed(self) -> Results:
        """All heads at once."""
        return self.run_form("packed")

    @cached_property
    def fused(self) -> Results:
        """The layer with torch's fused function."""
        return self.run_form("fused")

    @cached_property
    def torch(self) -> Results:
        """PyTorch's own module with the same weights, and a mask that is made here."""
        return run_torch(self.layer.state_dict(), self.x, self.direction)

    def run_form(self, form: Form) -> Results:
        """One form: outputs, weights and gradients by name."""
        self.layer.form = form
        x = self.x.clone().requires_grad_()
        self.layer.zero_grad()
        output = self.layer(x, is_causal=True)  # without weights, so that torch's kernel runs
        (output * self.direction).sum().backward()
        _, weights = self.layer(self.x, is_causal=True, need_weights=True)
        return _results(output, weights, x, self.layer)


def run_torch(state: Results, x: Tensor, direction: Tensor) -> Results:
    """`nn.MultiheadAttention` with these parameters: outputs, weights and gradients by name."""
    mha = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    mha.load_state_dict(state)
    x = x.clone().requires_grad_()
    blocked = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    output, weights = mha(x, x, x, attn_mask=blocked, average_attn_weights=False)
    (output * direction).sum().backward()
    return _results(output, weights, x, mha)


def _results(output: Tensor, weights: Tensor, x: Tensor, layer: nn.Module) -> Results:
    found = {"output": output} | {f"weights of head {h + 1}": weights[:, h] for h in range(HEADS)}
    gradients = {name: _gradient(p) for name, p in layer.named_parameters()}
    found["gradient of the input"] = _gradient(x)
    for kind, name in (("W", "in_proj_weight"), ("b", "in_proj_bias")):
        parts = zip("QKV", gradients[name].chunk(3), strict=True)
        found |= {f"gradient of {kind}_{letter}": part for letter, part in parts}
    found["gradient of W_O"] = gradients["out_proj.weight"]
    found["gradient of b_O"] = gradients["out_proj.bias"]
    return {name: tensor.detach() for name, tensor in found.items()}


def _gradient(tensor: Tensor) -> Tensor:
    if tensor.grad is None:
        raise LabError("gradient is missing: no gradient reached this tensor")
    return tensor.grad.clone()


def largest_gap(name: str, actual: Tensor, expected: Tensor) -> float:
    """The largest difference between two results.

    Raises:
        LabError: the expected result is zero everywhere, so agreement with it shows nothing.
        MismatchError: the shapes differ.
    """
    if float(expected.abs().max()) <= ROUNDING:
        raise LabError(f"{name} is zero everywhere: agreement with it shows nothing")
    return difference(name, actual, expected, allowed=ROUNDING).largest


def write_forms(record: Record) -> None:
    """Loop, packed, fused and PyTorch agree in outputs, weights and every gradient."""
    model = RandomModel()
    record.say(
        "The model is a random causal layer with biases, in double precision. The table shows the "
        "largest difference of each form from the loop form. Only rounding is allowed."
    )
    record.table("sizes", ("B", "T", "D", "H", "head width"))
    wanted = Equals(source="by hand", numbers=(BATCH, LENGTH, WIDTH, HEADS, WIDTH // HEADS))
    record.row("random model", partial(_sizes, model), wanted)
    record.table("largest difference from the loop form", COLUMNS)
    limit = AtMost(source="rounding in double precision", limit=ROUNDING)
    names = ["output", *(f"weights of head {h + 1}" for h in range(HEADS)), "gradient of the input"]
    names += [f"gradient of {name}" for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_V", "b_O")]
    for name in names:
        record.row(name, partial(_gaps, model, name), limit)
    record.say("Every entry of these gradients is a finite number other than zero, so all learn.")
    record.table("entries of each gradient in the loop form", ("all", "finite", "not zero"))
    for name in names[1 + HEADS :]:
        everywhere = Equals(source="torch", numbers=(model.torch[name].numel(),) * 3)
        record.row(name, partial(_entries, model, name), everywhere)
    record.say(
        "The gradient of b_K, the bias of the keys, is zero. If you add the same vector to all "
        "keys, all scores of a query change by the same number, and its weights stay the same."
    )
    record.table("largest entry of the gradient of b_K", ("loop", *COLUMNS))
    record.row("gradient of b_K", partial(_key_bias_gradients, model), limit)


def _sizes(model: RandomModel) -> tuple[int, ...]:
    model.layer.form = "packed"
    q = model.layer.trace(model.x, is_causal=True).q
    return (*model.x.shape, q.shape[1], q.shape[3])


def _gaps(model: RandomModel, name: str) -> tuple[float, ...]:
    others = (model.packed, model.fused, model.torch)
    return tuple(largest_gap(name, found[name], model.loop[name]) for found in others)


def _entries(model: RandomModel, name: str) -> tuple[int, ...]:
    """How many entries a gradient has, how many are finite, and how many are not zero."""
    gradient = model.loop[name]
    counts = (gradient.isfinite().sum(), gradient.count_nonzero())
    return (gradient.numel(), *(int(count) for count in counts))


def _key_bias_gradients(model: RandomModel) -> tuple[float, ...]:
    found = (model.loop, model.packed, model.fused, model.torch)
    return tuple(float(results["gradient of b_K"].abs().max()) for results in found)


def try_swap_heads(record: Record) -> None:
    """Heads 1 and 3 change places, with and without their rows of W_O."""
    model = RandomModel()
    record.say("The first and the last head of the random model are swapped.")
    record.table("largest change of the output", ("fused", "nn.MultiheadAttention"))
    limit = AtMost(source="the same sum in another order", limit=ROUNDING)
    record.row("with their rows of W_O", partial(_both_changes, model, True), limit)
    record.table("largest change of the output, W_O unchanged", ("fused",))
    by_torch = float(_torch_change(model, False))
    wanted = Equals(source="torch", numbers=(by_torch,), length=32 * PRODUCTS)
    record.row("without their rows of W_O", lambda: (_our_change(model, False),), wanted)
    record.say(
        "The order of the heads does not matter if the rows of W_O have the same order. Otherwise "
        "the output of a head is multiplied by the rows of another head, and no shape shows the "
        "mistake."
    )


def _both_changes(model: RandomModel, with_w_o: bool) -> tuple[float, ...]:
    return _our_change(model, with_w_o), _torch_change(model, with_w_o)


def _our_change(model: RandomModel, with_w_o: bool) -> float:
    """Swap per head, in `HeadWeights`."""
    tensors = model.layer.head_weights().tensors()
    keep = {"b_o"} if with_w_o else {"b_o", "w_o"}
    swapped = {name: t if name in keep else t.flip(0) for name, t in tensors.items()}
    with torch.no_grad():
        layer = MultiHeadAttention.from_weights(HeadWeights(**swapped))
        output = layer(model.x, is_causal=True)
    assert isinstance(output, Tensor)
    return float((output - model.fused["output"]).abs().max())


def _torch_change(model: RandomModel, with_w_o: bool) -> float:
    """Swap by row number, in PyTorch's layout."""
    state, size = dict(model.layer.state_dict()), WIDTH // HEADS
    order = torch.cat([torch.arange(h * size, (h + 1) * size) for h in reversed(range(HEADS))])
    rows = torch.cat([order + part * WIDTH for part in range(3)])
    state["in_proj_weight"], state["in_proj_bias"] = (
        state["in_proj_weight"][rows],
        state["in_proj_bias"][rows],
    )
    if with_w_o:
        state["out_proj.weight"] = state["out_proj.weight"][:, order]
    changed = run_torch(state, model.x, model.direction)["output"]
    return float((changed - model.torch["output"]).abs().max())
