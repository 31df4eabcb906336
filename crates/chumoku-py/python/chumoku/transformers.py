"""Chumoku's attention for models of transformers: ``attn_implementation="chumoku"``.

>>> import chumoku.transformers
>>> chumoku.transformers.register()                                                    # doctest: +SKIP
>>> AutoModel.from_pretrained(folder, attn_implementation="chumoku")                   # doctest: +SKIP

Softcap (Gemma 2), sinks (GPT-OSS), biases by position (T5) and dropout of weights run in the fused kernel too, which PyTorch's
own has not. ``model(..., output_attentions=True)`` returns weights; :func:`chumoku.torch.watch` collects what can be said of them
without any array of queries × keys, and shows the page of ``chumoku explain``.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch

from . import _watch
from ._functions import attention

__all__ = ["register", "weights"]

NAME = "chumoku"

# Arguments of attention functions that change no score: whatever is not known must not be passed over in silence.
_HARMLESS = frozenset(
    "is_causal use_cache cache_position position_ids output_attentions output_hidden_states return_dict num_items_in_batch "
    "sliding_window deterministic layer_idx position_embeddings "
    "past_key_values past_key_value logits_to_keep output_router_logits token_type_ids padding_mask encoder_hidden_states".split()
)

# Where packed sequences begin: a mask has that in it, and without one they would attend to each other.
_PACKED = frozenset("cu_seq_lens_q cu_seq_lens_k max_length_q max_length_k".split())

_wants_weights = False


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    output_attentions: bool = False,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    for name, x in others.items():
        if x is not None and name not in _HARMLESS and (name not in _PACKED or attention_mask is None):
            raise ValueError(f"attn_implementation=\"{NAME}\": the argument {name!r} of {type(module).__name__} is not known")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    # As in PyTorch's path: one query sees all keys of the cache, and a mask has causality in it.
    is_causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if position_bias is not None:
        attention_mask = _joined(attention_mask, position_bias)
    asked = _wants_weights or output_attentions
    options: dict[str, Any] = {
        "causal": "top_left" if is_causal else None,
        "mask": attention_mask,
        "scale": scaling,
        "softcap": softcap,
        "sinks": s_aux,
    }
    result = attention(query, key, value, **options, dropout=dropout, return_lse=True, return_weights=asked)
    _watch.collect(module, (query, key, value), options)
    weights = result.weights.to(query.dtype) if asked else None
    return result.output.transpose(1, 2).contiguous(), weights


def _joined(mask: torch.Tensor | None, bias: torch.Tensor) -> torch.Tensor:
    """A mask and a bias by position as numbers that are added to scores."""
    if mask is None:
        return bias
    mask = mask[..., : bias.shape[-1]]
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, -torch.inf)
    return mask + bias


def _mask(batch_size: int, q_length: int, kv_length: int, *arguments: Any, **keywords: Any) -> torch.Tensor | None:
    """The mask of a call. Mere padding stays one byte a key, expanded to (batch, 1, queries, keys) without memory."""
    from transformers import masking_utils

    padding, offset = keywords.get("attention_mask"), keywords.get("kv_offset", 0)
    if (
        not arguments
        and keywords.get("mask_function") is masking_utils.bidirectional_mask_function
        and isinstance(padding, torch.Tensor)
        and padding.dim() == 2
        and isinstance(offset, int)
        and padding.shape[1] >= offset + kv_length
    ):
        padding = padding[:, offset : offset + kv_length].bool()
        return padding[:, None, None, :].expand(batch_size, 1, q_length, kv_length)
    return masking_utils.sdpa_mask(batch_size, q_length, kv_length, *arguments, **keywords)


def register() -> None:
    """Makes ``attn_implementation="chumoku"`` known to transformers.

    Raises:
        ImportError: transformers is not installed, or older than the interface (4.57).
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _attention)
    # Without a mask function of its own, transformers hands no mask, and padding would be attended to.
    AttentionMaskInterface.register(NAME, _mask)


@contextlib.contextmanager
def weights() -> Iterator[None]:
    """Within this, attention modules return their weights, also where they do not hand ``output_attentions`` on."""
    global _wants_weights
    before, _wants_weights = _wants_weights, True
    try:
        yield
    finally:
        _wants_weights = before
