"""Small random models of every type in transformers that has attention and can be built small.

A configuration's sizes are set by the names of its attributes. A model is first built without
memory (device meta), and refused if it has more than a few million parameters.
"""

import inspect
from typing import Any

import torch
from torch import nn

SIZES = {
    "hidden_size": 24,
    "d_model": 24,
    "n_embd": 24,
    "embed_dim": 24,
    "dim": 24,
    "embedding_size": 24,
    "emb_dim": 24,
    "n_embed": 24,
    "encoder_hidden_dim": 24,
    "decoder_hidden_size": 24,
    "num_attention_heads": 4,
    "num_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "n_layer": 2,
    "n_layers": 2,
    "num_key_value_heads": 2,
    "num_kv_heads": 2,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_decoder_layers": 2,
    "num_encoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "intermediate_size": 32,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "ffn_dim": 32,
    "d_ff": 32,
    "n_inner": 32,
    "d_kv": 6,
    "d_inner": 32,
    "d_head": 6,
    "vocab_size": 64,
    "image_size": 16,
    "patch_size": 8,
    "head_dim": 6,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_intermediate_size": 16,
    "num_experts_per_tok": 2,
    "projection_dim": 16,
    "hidden_dim": 32,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "shared_expert_intermediate_size": 16,
    "moe_num_experts": 4,
    "ffn_hidden_size": 32,
    "type_vocab_size": 2,
    "num_mel_bins": 16,
    "max_source_positions": 32,
    "max_target_positions": 32,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "decoder_ffn_size": 32,
    "num_codebooks": 2,
    "fc_hidden_size": 32,
    "rotary_dim": 4,
    "word_embed_proj_dim": 24,
    "encoder_num_hidden_layers": 2,
    "n_ctx": 64,
    "d_embed": 24,
    "mlp_dim": 32,
    "num_block_records": 16,
    "block_size": 8,
    "sliding_window": 6,
    "num_encoder_blocks": 2,
    "encoder_hidden_size": 24,
    "attention_head_size": 6,
    "text_embed_dim": 24,
    "vision_embed_dim": 24,
    "decoder_num_attention_heads": 4,
    "decoder_num_hidden_layers": 2,
    "decoder_intermediate_size": 32,
    "attention_hidden_size": 24,
    "n_shared_experts": 1,
    "moe_layer_start_index": 1,
    "num_frames": 4,
    "text_config_hidden_size": 24,
    "state_size": 8,
    "mamba_n_heads": 4,
    "mamba_d_state": 8,
    "mamba_d_head": 12,
    "mamba_expand": 2,
    "lru_width": 24,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 6,
    "partial_rotary_factor": 1.0,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "speech_encoder_layers": 2,
    "conv_kernel": None,
    "expert_ffn_hidden_size": 32,
    "zero_expert_num": 0,
    "num_global_layers": 1,
    "ffn_size": 32,
    "mamba_head_dim": 6,
    "n_mamba_heads": 2,
    "mamba_num_heads": 4,
    "bottleneck_size": 24,
    "intra_bottleneck_size": 24,
    "true_hidden_size": 24,
    "entity_vocab_size": 16,
    "entity_emb_size": 24,
    "expert_capacity": 8,
    "num_sparse_encoder_layers": 1,
    "num_sparse_decoder_layers": 1,
    "num_latents": 8,
    "d_latents": 24,
    "num_self_attention_heads": 4,
    "num_cross_attention_heads": 4,
    "num_blocks": 1,
    "num_self_attends_per_block": 1,
    "attention_dim": 24,
    "ngram": 2,
    "perceiver_num_heads": 4,
    "q_n_layers": 2,
    "backbone_hidden_size": 24,
    "attn_head_dim": 6,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 64,
    "num_kv_shared_layers": 0,
    "laurel_rank": 4,
    "altup_num_inputs": 2,
    "rope_head_dim": 4,
    "kv_channels": 6,
}
MOST_PARAMETERS = 4_000_000


def small_config(kind: type) -> Any:
    """A configuration whose sizes are small."""
    names = inspect.signature(kind).parameters
    given = {name: size for name, size in SIZES.items() if name in names and size is not None}
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if name in names:
            given[name] = 1
    if "mask_token_id" in names:
        given["mask_token_id"] = 2
    for keep in (given, {k: v for k, v in given.items() if k not in ("head_dim", "layer_types")}):
        try:
            config = kind(**keep)
            _shrink_parts(config)
            return config
        except Exception as error:
            last = error
    raise last


def _shrink_parts(config: Any) -> None:
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None and type(part).__name__ != "AutoConfig":
            try:
                setattr(config, name, small_config(type(part)))
            except Exception:
                continue


def build(model_class: type, config: Any, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A model with random weights, in evaluation mode."""
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class._from_config(config).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size} parameters")
    torch.manual_seed(0)
    model = model_class._from_config(config)
    for parameter in model.parameters():
        if parameter.dtype.is_floating_point and parameter.std() == 0 and parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.2)
    return model.to(dtype).eval()


def inputs_for(model: nn.Module, config: Any, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Inputs by the names that the forward pass takes."""
    names = inspect.signature(model.forward).parameters
    text = getattr(config, "get_text_config", lambda: config)()
    vocab = getattr(text, "vocab_size", 64)
    vocab = vocab if isinstance(vocab, int) else 64
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, max(vocab, 8), (2, 13), generator=generator)
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 16)
    size = (size, size) if isinstance(size, int) else size
    channels = getattr(vision, "num_channels", 3)
    mel = getattr(config, "num_mel_bins", 16)
    options = {
        "input_ids": ids,
        "decoder_input_ids": ids[:, :7],
        "pixel_values": torch.randn(2, channels, *size, generator=generator, dtype=dtype),
        "input_values": torch.randn(2, 4000, generator=generator, dtype=dtype),
        "input_features": torch.randn(2, mel, 64, generator=generator, dtype=dtype),
    }
    main = getattr(model, "main_input_name", "input_ids")
    wanted = {main, "decoder_input_ids"} | (
        {"input_ids", "pixel_values"}
        if hasattr(config, "vision_config") and hasattr(config, "text_config")
        else set()
    )
    return {name: value for name, value in options.items() if name in names and name in wanted}
