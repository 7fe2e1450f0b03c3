"""Trained models as files: read and written safely, those that come with the package, and ONNX."""

from manyheads.checkpoints.files import ModelFile, read_model, write_model
from manyheads.checkpoints.shipped import Shipped, load_shipped, shipped_models

__all__ = ["ModelFile", "Shipped", "load_shipped", "read_model", "shipped_models", "write_model"]
