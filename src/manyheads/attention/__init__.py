"""Attention: one sum in three forms."""

from manyheads.attention.cache import KVCache
from manyheads.attention.loop import SingleHead
from manyheads.attention.module import MultiHeadAttention

__all__ = ["KVCache", "MultiHeadAttention", "SingleHead"]
