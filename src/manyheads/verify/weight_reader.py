"""Reading one weight and its bias out of a stranger's object, by the path that was declared."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import ModuleDict, ParameterDict

from manyheads.core.errors import SubjectError
from manyheads.verify.specs import ParamSpec

Pair = tuple[Tensor, Tensor | None]
"""A weight and its bias, if any."""


def attribute(root: object, path: str) -> Any:  # noqa: ANN401 - whatever stands there
    """Follow a dotted path through attributes and list positions.

    Raises:
        SubjectError: there is no such attribute; the message names the step that failed.
    """
    here: Any = root
    for step in [s for s in path.split(".") if s]:
        try:
            is_by_name = isinstance(here, Mapping | ModuleDict | ParameterDict)
            if is_by_name and step in here:
                here = here[step]
            elif is_by_name or step.isdigit():
                here = here[int(step)]
            else:
                here = getattr(here, step)
        except (AttributeError, IndexError, TypeError, KeyError, ValueError) as error:
            raise SubjectError(f"params: {path!r} has no {step!r} in the built object") from error
    return here


class WeightReader:
    """Reads weight and bias of a name, as tensors (out, in) and (out,).

    Args:
        root: the built object.
        params: where its weights are.
    """

    def __init__(self, root: object, params: ParamSpec) -> None:
        self.root, self.params, self.tensors = root, params, dict[str, Tensor]()
        self.is_in_out = False  # set where a packed tensor turns out to be stored (in, out)

    def pair(self, kind: str, head: int | None = None) -> Pair:
        """Weight and bias of one projection.

        Args:
            kind: q, k, v, o, qkv or kv.
            head: number of the head where each has its own.

        Raises:
            SubjectError: no path is declared, or nothing of use stands there.
        """
        path = self.params.names.get(kind)
        if path is None:
            raise SubjectError(f"params.{kind} is missing: layout {self.params.layout!r} needs it")
        path = path.replace("{h}", str(head))
        item = attribute(self.root, path)
        weight, bias = (item, None) if isinstance(item, Tensor) else self._parts(item, path)
        if kind in self.params.biases:
            bias_path = self.params.biases[kind].replace("{h}", str(head))
            bias = attribute(self.root, bias_path)
            self._note(bias_path, bias)
        if not isinstance(weight, Tensor):
            raise SubjectError(
                f"params.{kind} ({path!r}) is neither a tensor nor a module with a weight"
            )
        if weight is item:
            self._note(path, weight)
        return weight, bias if isinstance(bias, Tensor) else None

    def _parts(self, module: object, path: str) -> tuple[object, object]:
        """Weight and bias of a module, as it has them."""
        weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
        self._note(f"{path}.weight", weight)
        self._note(f"{path}.bias", bias)
        is_conv1d = type(module).__name__ == "Conv1D" and hasattr(module, "nf")
        if is_conv1d and isinstance(weight, Tensor):
            return weight.T, bias  # GPT-2's layer stores (in, out)
        return weight, bias

    def _note(self, path: str, tensor: object) -> None:
        if isinstance(tensor, Tensor):
            self.tensors[path] = tensor
