"""The published experiment's training step in plain PyTorch: the peer for our timing.

Keys and values of all rows are formed, the last row asks, logits are materialised, autograd makes
the gradients, and the optimiser is torch's AdamW as it comes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.models.lm import AttentionLM, FixedWindowMLP


class PlainAttentionLM(nn.Module):
    """The study's attention model in plain PyTorch, with the parameters of a given one."""

    def __init__(self, model: AttentionLM) -> None:
        super().__init__()
        config = model.config
        self.num_heads = config.num_heads
        self.words = nn.Embedding(config.vocab_size, config.width)
        self.places = nn.Embedding(config.context, config.width)
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, config.width, bias=False)
        self.value = nn.Linear(config.width, config.width, bias=False)
        self.mix = nn.Linear(config.width, config.width, bias=False)
        self.hidden = nn.Linear(config.width, config.hidden)
        self.output = nn.Linear(config.hidden, config.vocab_size)
        mixed = model.attention.state_dict()
        query, key, value = mixed["in_proj_weight"].chunk(3)
        own = [
            (self.words, {"weight": model.token_embedding.weight}),
            (self.places, {"weight": model.position_embedding.weight}),
            (self.query, {"weight": query}),
            (self.key, {"weight": key}),
            (self.value, {"weight": value}),
            (self.mix, {"weight": mixed["out_proj.weight"]}),
            (self.hidden, model.hidden.state_dict()),
            (self.output, model.output.state_dict()),
        ]
        for layer, numbers in own:
            layer.load_state_dict(numbers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, V) of what follows the last of tokens (B, T)."""
        B, T = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(T))
        last = x[:, -1:]
        q, k, v = (self._split(part) for part in (self.query(last), self.key(x), self.value(x)))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, H, 1, T)
        scores = scores.masked_fill((tokens == 0)[:, None, None, :], float("-inf"))
        message = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(B, 1, -1)
        row = (last + self.mix(message))[:, 0]
        return self.output(F.relu(self.hidden(row)))

    def _split(self, rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class PlainRecipe:
    """One step of training after another.

    Args:
        model: the study's model, whose numbers are copied.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
    """

    def __init__(
        self, model: AttentionLM | FixedWindowMLP, *, learning_rate: float, weight_decay: float
    ) -> None:
        self.model: nn.Module
        if isinstance(model, AttentionLM):
            self.model = PlainAttentionLM(model)
        else:
            self.model = FixedWindowMLP(vocab_size=model.config.vocab_size)
            self.model.load_state_dict(model.state_dict())
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=learning_rate, weight_decay=weight_decay
        )

    def step(self, tokens: Tensor, targets: Tensor) -> float:
        """Train on windows (B, T) with targets (B, 1); the mean loss before the step, in nats."""
        self.optimiser.zero_grad()
        loss = F.cross_entropy(self.model(tokens), targets[:, 0])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        return float(loss.item())
