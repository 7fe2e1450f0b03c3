"""A model is handed back exactly as it was handed over, whatever happens in between."""

import copy
import inspect
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import manyheads as mh
from manyheads.core.errors import LookError
from manyheads.looking.copying import private_copy
from tests.looking.conftest import sizes, small_model


def state_of(model: nn.Module) -> dict[str, Any]:
    """Everything of a model that a look could change."""
    return {
        "tensors": {k: (v.data_ptr(), v.clone()) for k, v in model.state_dict().items()},
        "modes": [part.training for part in model.modules()],
        "hooks": [list(part._forward_hooks.values()) for part in model.modules()],
        "kinds": [(name, id(part), type(part)) for name, part in model.named_modules()],
        "implementation": model.config._attn_implementation,
        "config": model.config.to_dict(),
        "grads": [p.grad for p in model.parameters()],
        "needs": [p.requires_grad for p in model.parameters()],
        # Not Python's generator, from which the checks of annotations draw while tests run.
        "chance": (torch.get_rng_state(), np.random.get_state()[1].tolist()),
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise unless two states are equal bit for bit."""
    tensors, now = before.pop("tensors"), after.pop("tensors")
    assert tensors.keys() == now.keys()
    for name, (place, value) in tensors.items():
        assert now[name][0] == place, name
        assert torch.equal(now[name][1], value), name
    chance, new = before.pop("chance"), after.pop("chance")
    assert torch.equal(chance[0], new[0])
    assert chance[1:] == new[1:]
    assert before == after


def test_a_model_in_training_with_sdpa_and_hooks_stays_as_it_was(
    llama: nn.Module, ids: Tensor
) -> None:
    llama.train()
    llama.model.layers[0].eval()
    llama.model.layers[1].register_forward_hook(lambda m, a, out: None)
    before = state_of(llama)
    seen = mh.look(llama, inputs=ids)
    seen.logits(5)
    assert llama.config._attn_implementation == "sdpa"
    assert_same(before, state_of(llama))


def test_a_hook_that_changes_the_model_is_part_of_it(llama: nn.Module, ids: Tensor) -> None:
    plain = mh.look(llama, inputs=ids).weights(1)
    llama.model.layers[0].register_forward_hook(lambda m, a, out: out * 2.0)
    steered = mh.look(llama, inputs=ids)
    assert not torch.equal(steered.weights(1), plain)
    assert steered.proof.output_gap == 0.0


def test_a_forward_that_raises_leaves_the_model_as_it_was(llama: nn.Module, ids: Tensor) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    llama.model.layers[1].mlp.register_forward_hook(fail)
    before = state_of(llama)
    with pytest.raises(LookError, match="out of luck"):
        mh.look(llama, inputs=ids)
    assert_same(before, state_of(llama))
    llama.model.layers[1].mlp._forward_hooks.clear()
    assert mh.look(llama, inputs=ids).proof.output_gap == 0.0


def test_a_cache_that_is_handed_over_stays_as_it_was(llama: nn.Module, ids: Tensor) -> None:
    with torch.no_grad():
        output = llama.eval()(ids[:, :6], use_cache=True)
    name = "cache" if "cache" in inspect.signature(llama.forward).parameters else "past_key_values"
    cache = output["past_key_values"]
    before = [layer.keys.clone() for layer in cache.layers]
    seen = mh.look(llama, inputs={"input_ids": ids[:, 6:], name: cache})
    assert seen.weights(0).shape == (2, 4, 5, 11)
    assert all(torch.equal(a, b.keys) for a, b in zip(before, cache.layers, strict=True))
    whole = mh.look(llama, inputs=ids).weights(0)[:, :, 6:]
    torch.testing.assert_close(seen.weights(0), whole, rtol=0, atol=1e-6)


def test_buffers_that_a_forward_changes_are_the_copys(ids: Tensor) -> None:
    class Counting(nn.Module):
        """Counts its calls in a buffer."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, input_ids: Tensor) -> Any:
            self.calls += 1
            return self.inner(input_ids)

    model = Counting(small_model("GPT2LMHeadModel", vocab_size=60, n_embd=24, n_layer=1, n_head=4))
    mh.look(model, inputs=(ids,))
    assert float(model.calls) == 0.0


def test_two_threads_that_look_at_one_model_do_not_mix(llama: nn.Module) -> None:
    inputs = [torch.randint(3, 60, (1, 8 + i)) for i in range(4)]
    expected = [mh.look(llama, inputs=one).weights(1) for one in inputs]
    with torch.no_grad():
        plain = llama.eval()(inputs[0]).logits
    found: dict[int, Tensor] = {}
    others: list[Tensor] = []

    def look_often(i: int) -> None:
        for _ in range(5):
            found[i] = mh.look(llama, inputs=inputs[i]).weights(1)

    def run_often() -> None:
        with torch.no_grad():
            others.extend(llama(inputs[0]).logits for _ in range(20))

    threads = [threading.Thread(target=look_often, args=(i,)) for i in range(4)]
    threads.append(threading.Thread(target=run_often))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(found[i], expected[i]) for i in range(4))
    assert all(torch.equal(other, plain) for other in others)


def test_a_private_copy_shares_parameters_and_ties(gpt2: nn.Module) -> None:
    twin = private_copy(gpt2)
    assert twin.lm_head.weight is twin.transformer.wte.weight is gpt2.lm_head.weight
    assert twin.config is not gpt2.config
    assert not twin.training


def test_a_model_that_cannot_be_copied_is_refused_in_one_line(ids: Tensor) -> None:
    model = small_model("GPT2LMHeadModel", vocab_size=60, n_embd=24, n_layer=1, n_head=4)
    model.lock = threading.Lock()
    with pytest.raises(LookError, match="cannot be copied"):
        mh.look(model, inputs=ids)
    with pytest.raises(TypeError):
        copy.deepcopy(model.lock)


def test_an_encoder_is_not_read_as_causal(bert: nn.Module, ids: Tensor) -> None:
    weights = mh.look(bert, inputs=ids).weights(0)
    assert float(weights.triu(diagonal=1).sum()) > 0.0
    assert sizes()["hidden_size"] == weights.shape[1] * 6
