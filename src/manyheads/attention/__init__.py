"""Attention in three forms that compute the same."""

from manyheads.attention.cache import KVCache
from manyheads.attention.module import MultiHeadAttention
from manyheads.attention.single_head import SingleHead

__all__ = ["KVCache", "MultiHeadAttention", "SingleHead"]
