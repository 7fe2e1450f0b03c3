"""Looking at a model of 135 million parameters: `python -m benchmarks.look`.

Three questions: what a look with proof and labels costs against one eager pass that returns all
weights; what statistics over a long text cost against that pass; and whether memory grows with the
number of layers. Weights are random unless `--model` names a folder. Each long case runs in its own
process, whose peak resident size is read from the system.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from typing import Any

from benchmarks.memory import peak_bytes

SIZES = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
}
TINY = SIZES | {"hidden_size": 36, "intermediate_size": 48, "vocab_size": 256}


def model_of(layers: int, sizes: dict[str, int], folder: str | None = None) -> Any:  # noqa: ANN401 - of transformers
    """A Llama with eager attention, as its weights can be asked for."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, logging

    logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if folder is not None:
        model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, attn_implementation="eager", dtype=torch.float32
        )
    else:
        config = LlamaConfig(**sizes, num_hidden_layers=layers, tie_word_embeddings=True)
        model = LlamaForCausalLM._from_config(config, attn_implementation="eager")
    return model.eval()


def ids_of(model: Any, length: int) -> Any:  # noqa: ANN401 - a tensor, which is loaded later
    """Random token ids (1, T)."""
    import torch

    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, model.config.vocab_size, (1, length), generator=generator)


def short_ratio(
    layers: int, sizes: dict[str, int], length: int, rounds: int, folder: str | None
) -> dict[str, Any]:
    """CPU seconds of a look with labels and of an eager pass, by turns."""
    import torch

    import manyheads as mh

    model = model_of(layers, sizes, folder)
    ids = ids_of(model, length)

    def eager() -> None:
        with torch.no_grad():
            model(ids, output_attentions=True, use_cache=False)

    def look() -> None:
        mh.look(model, inputs=ids).labelled(draws=0, half=12, samples=1)

    spent: dict[str, list[float]] = {"eager": [], "look": []}
    for call in (eager, look):
        call()
    for _ in range(rounds):
        for name, call in (("eager", eager), ("look", look)):
            begun = time.process_time()
            call()
            spent[name].append(time.process_time() - begun)
    ratios = [b / a for a, b in zip(spent["eager"], spent["look"], strict=True)]
    return {
        "eager_seconds": statistics.median(spent["eager"]),
        "look_seconds": statistics.median(spent["look"]),
        "ratio": statistics.median(ratios),
    }


def long_case(kind: str, layers: int, sizes: dict[str, int], length: int) -> tuple[int, float]:
    """Bytes by which one pass over a long text raises the peak, and its CPU seconds."""
    import torch

    from manyheads.looking import corpus_statistics

    model = model_of(layers, sizes).model  # without the unembedding, which is no attention
    ids = ids_of(model, length)
    with torch.no_grad():
        model(ids[:, :16], use_cache=False)
    before, begun = peak_bytes(), time.process_time()
    if kind == "eager":
        with torch.no_grad():
            model(ids, output_attentions=True, use_cache=False)
    else:
        corpus_statistics(model, [ids])
    return peak_bytes() - before, time.process_time() - begun


def main() -> None:
    """Print or write the three comparisons."""
    parser = argparse.ArgumentParser(description="looking at a model of 135 million parameters")
    parser.add_argument("--length", type=int, default=8192, help="tokens of the long text (8192)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the short text (5)")
    parser.add_argument("--model", metavar="FOLDER", help="a folder in place of random weights")
    parser.add_argument("--only", choices=["short", "long", "depth"], help="one comparison only")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    sizes, length = (TINY, 512) if given.quick else (SIZES, given.length)
    found: dict[str, Any] = {"length": length}
    if given.only in (None, "short"):
        found["short"] = short_ratio(30, sizes, 200, given.rounds, given.model)
    cases = {"long": (("eager", 2), ("blocks", 2)), "depth": (("blocks", 2), ("blocks", 30))}
    for name, pairs in cases.items():
        if given.only in (None, name):
            found[name] = [_in_process(kind, layers, sizes, length) for kind, layers in pairs]
    print(json.dumps(found) if given.json else _text(found))


def _in_process(kind: str, layers: int, sizes: dict[str, int], length: int) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        peak, seconds = pool.apply(long_case, (kind, layers, sizes, length))
    return {"kind": kind, "layers": layers, "peak_bytes": peak, "seconds": seconds}


def _text(found: dict[str, Any]) -> str:
    lines = ["Llama of 576 x 30 with 9 heads, float32, cpu, 1 thread, CPU time"]
    if "short" in found:
        one = found["short"]
        lines.append(
            f"  200 tokens: eager pass with weights {one['eager_seconds']:.2f} s, look with proof "
            f"and labels {one['look_seconds']:.2f} s, ratio {one['ratio']:.2f}"
        )
    for name in ("long", "depth"):
        for one in found.get(name, []):
            lines.append(
                f"  T = {found['length']}, {one['layers']} layers, {one['kind']}: "
                f"{one['seconds']:.1f} s, {one['peak_bytes'] / 2**20:.0f} MiB"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
