"""Model files: safe reading and writing, the models of the package, and ONNX export."""

from manyheads.checkpoints.files import ModelFile, read_model, write_model
from manyheads.checkpoints.shipped import Shipped, load_shipped, shipped_models

__all__ = ["ModelFile", "Shipped", "load_shipped", "read_model", "shipped_models", "write_model"]
