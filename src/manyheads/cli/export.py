"""`manyheads export`: a trained model as a file for other programs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from manyheads.cli.types import INTEGER, NAME_OR_PATH, FilePath
from manyheads.core.errors import ConfigError
from manyheads.core.extras import has_package, require

if TYPE_CHECKING:
    from manyheads.checkpoints.onnx_export import OnnxFile, OnnxGap
    from manyheads.checkpoints.shipped import Shipped


@click.group(invoke_without_command=True)
@click.pass_context
def export(ctx: click.Context) -> None:
    r"""Write a trained model as a file for other programs.

    \b
    Example:
      manyheads export onnx four-heads four-heads.onnx --weights
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@export.command()
@click.argument("model", type=NAME_OR_PATH)
@click.argument("out", type=FilePath())
@click.option(
    "--weights", "with_weights", is_flag=True, help="Add the attention weights as an output."
)
@click.option(
    "--opset",
    type=INTEGER,
    default=17,
    show_default=True,
    metavar="N",
    help="Version of the ONNX operator set, 13 to 21.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def onnx(model: str, out: Path, with_weights: bool, opset: int, as_json: bool) -> None:
    r"""Write MODEL to OUT as an ONNX file.

    MODEL is the name of a shipped model, such as four-heads, or the path of a .safetensors file.
    If onnxruntime is installed, the command compares all logits of the file with PyTorch. The exit
    status is 1 if they differ by more than rounding.

    \b
    Example:
      manyheads export onnx four-heads four-heads.onnx --weights
    """
    from manyheads.checkpoints.onnx_export import export_onnx, onnx_gap
    from manyheads.checkpoints.shipped import load_shipped

    require("export", "onnx", purpose="an ONNX file")
    if out.is_dir():
        raise ConfigError(f"OUT ({out}) is a folder: give a file, such as {out / 'model.onnx'}")
    found = load_shipped(model)
    if out.exists() and Path(model).exists() and out.samefile(model):
        raise ConfigError(f"OUT ({out}) is the same file as MODEL: give another file")
    written = export_onnx(
        found.model, out, weights=with_weights, opset=opset, metadata=_metadata(model, found)
    )
    gap = onnx_gap(found.model, out) if has_package("onnxruntime") else None
    show = _document if as_json else _text
    click.echo(show(model, written, gap))
    if gap is not None and not gap.is_small:
        raise click.exceptions.Exit(1)


def _metadata(model: str, found: "Shipped") -> dict[str, str]:
    """Facts that the file carries, without a path of this computer."""
    from manyheads.checkpoints.shipped import shipped_models, tokenizer_sha256

    is_shipped = model in shipped_models()
    licence = (
        "The weights are covered by the licence of manyheads; see its MODEL_CARD.md, also for the "
        "licence of the data they were trained on."
    )
    return {
        "name": model if is_shipped else str(found.facts.get("run", Path(model).stem)),
        "source_sha256": str(found.facts["sha256"]),
        "tokenizer_sha256": tokenizer_sha256(found.tokenizer_json),
        "licence": licence if is_shipped else "That of the checkpoint and of its training data.",
    }


def _text(model: str, written: "OnnxFile", gap: "OnnxGap | None") -> str:
    lines = [
        f"{written.path}: {model} as ONNX, opset {written.opset}, {written.size:,} bytes",
        f"sha256 {written.sha256}",
    ]
    if gap is None:
        lines.append("not compared with PyTorch: onnxruntime is not installed")
        return "\n".join(lines)
    lines.append(_said("logit", gap.logits, gap))
    if gap.attn_weights is not None:
        lines.append(_said("weight", gap.attn_weights, gap))
    return "\n".join(lines)


def _said(name: str, difference: float, gap: "OnnxGap") -> str:
    from manyheads.checkpoints.onnx_export import ALLOWED_GAP

    return (
        f"largest difference of any {name} to PyTorch: {difference:.1e} "
        f"({gap.num_windows} windows, {ALLOWED_GAP:.0e} allowed)"
    )


def _document(model: str, written: "OnnxFile", gap: "OnnxGap | None") -> str:
    compared = None
    if gap is not None:
        compared = {
            "num_windows": gap.num_windows,
            "largest_logit_difference": gap.logits,
            "largest_weight_difference": gap.attn_weights,
            "passed": gap.is_small,
        }
    return json.dumps(
        {
            "model": model,
            "path": str(written.path),
            "bytes": written.size,
            "sha256": written.sha256,
            "opset": written.opset,
            "compared": compared,
        }
    )
