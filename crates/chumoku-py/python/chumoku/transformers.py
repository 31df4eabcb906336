"""Chumoku's attention for models of transformers: ``attn_implementation="chumoku"``.

>>> import chumoku.transformers
>>> chumoku.transformers.register()                                                    # doctest: +SKIP
>>> AutoModel.from_pretrained(folder, attn_implementation="chumoku")                   # doctest: +SKIP

Softcap (Gemma 2), sinks (GPT-OSS), position biases (T5) and dropout of weights also run in the fused kernel, which
PyTorch's own lacks. ``model(..., output_attentions=True)`` returns weights. :func:`chumoku.torch.watch` records
statistics without any array of queries × keys, and shows the page of ``chumoku explain``.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
import sys
from typing import Any, Iterator

import torch

from . import _watch
from ._functions import attention

__all__ = ["register", "weights"]

NAME = "chumoku"

# Arguments of attention calls that do not change scores.
_HARMLESS_ARGUMENTS = frozenset(
    "is_causal output_attentions sliding_window deterministic position_ids layer_idx position_embeddings past_key_values "
    "past_key_value".split()
)

# Offsets of packed sequences: a mask already separates them, and without one they would attend to each other.
_PACKED = frozenset("cu_seq_lens_q cu_seq_lens_k max_length_q max_length_k".split())

# Arguments that change scores, also in models that do not name them.
_SCORE_ARGUMENTS = frozenset("cache head_mask indices block_indices sinks score_mod block_mask seqlens_k".split())

# Models that drop queries after creating the mask, so they always need one. (Their code makes an exception for "sdpa".)
_CUTS_QUERIES = frozenset(("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"))

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
        if x is not None and name not in _HARMLESS_ARGUMENTS and _concerns_attention(module, name, attention_mask is not None):
            raise ValueError(
                f'attn_implementation="{NAME}": the argument {name!r} of {type(module).__name__} is not known; '
                'use attn_implementation="eager"'
            )
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    # As in PyTorch's path: a single query sees all keys of the cache, and a mask already includes causality.
    is_causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if position_bias is not None:
        attention_mask = _joined(attention_mask, position_bias)
    if key.shape[0] != query.shape[0]:
        # Learned queries have a batch size of 1.
        query, key, value = (x.expand(max(query.shape[0], key.shape[0]), *x.shape[1:]) for x in (query, key, value))
    needs_weights = _wants_weights or output_attentions
    options: dict[str, Any] = {
        "causal": "top_left" if is_causal else None,
        "mask": attention_mask,
        "scale": scaling,
        "softcap": softcap,
        "sinks": s_aux,
    }
    result = attention(query, key, value, **options, dropout=dropout, return_lse=True, return_weights=needs_weights)
    _watch.collect(module, (query, key, value), options)
    weights = result.weights.to(query.dtype) if needs_weights else None
    return result.output.transpose(1, 2).contiguous(), weights


def _concerns_attention(module: torch.nn.Module, name: str, has_mask: bool) -> bool:
    """Returns true if an unknown argument may change scores. Caller arguments that a model only passes on
    (`shift_labels`) do not."""
    if name in _PACKED:
        return not has_mask
    return name in _SCORE_ARGUMENTS or name in _named_at_calls(type(module).__module__)


@functools.lru_cache(maxsize=None)
def _named_at_calls(module: str) -> frozenset[str]:
    """Returns the arguments that a module names where it calls or defines an attention function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(_source(module))):
        # (A call through an attribute is a call of a layer.)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and "attention" in node.func.id:
            names |= {keyword.arg for keyword in node.keywords if keyword.arg is not None}
        elif isinstance(node, ast.FunctionDef) and node.name.endswith("attention_forward"):
            names |= {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    return frozenset(names)


def _source(module: str) -> str:
    """Returns the source of a module; empty if it has none, as in a notebook."""
    try:
        return inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return ""


def _joined(mask: torch.Tensor | None, bias: torch.Tensor) -> torch.Tensor:
    """Returns a mask and a position bias as numbers to add to the scores."""
    if mask is None:
        return bias
    mask = mask[..., : bias.shape[-1]]
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, -torch.inf)
    return mask + bias


def _mask(batch_size: int, q_length: int, kv_length: int, *arguments: Any, **keywords: Any) -> torch.Tensor | None:
    """Returns the mask of a call. A padding mask stays one byte per key, expanded to (batch, 1, queries, keys) without
    memory."""
    from transformers import masking_utils

    if getattr(keywords.get("config"), "model_type", None) in _CUTS_QUERIES:
        keywords["allow_is_causal_skip"] = False
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
    """Registers ``attn_implementation="chumoku"`` with transformers.

    Some models do not use transformers' attention interface, or only in part. They raise a ValueError that names
    ``"eager"`` when they are created or when ``set_attn_implementation`` is called.

    Raises:
        ImportError: transformers is not installed, or is older than the interface (4.57).
    """
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

    AttentionInterface.register(NAME, _attention)
    # Without a registered mask function, transformers passes no mask, and padding would be attended to.
    AttentionMaskInterface.register(NAME, _mask)
    # transformers checks that the name is registered, but not that the model uses the interface.
    check = PreTrainedModel.get_correct_attn_implementation
    if getattr(check, "of_chumoku", False):
        return

    @functools.wraps(check)
    def checked(self: Any, requested_attention: str | None, *arguments: Any, **keywords: Any) -> str:
        found = check(self, requested_attention, *arguments, **keywords)
        if found == NAME and (why := _refusal(type(self))) is not None:
            raise ValueError(f'{type(self).__name__} does not support attn_implementation="{NAME}": {why}; use attn_implementation="eager"')
        return found

    checked.of_chumoku = True  # type: ignore[attr-defined]
    PreTrainedModel.get_correct_attn_implementation = checked


def _refusal(model: type) -> str | None:
    """Returns the reason why a model class cannot run with this attention, or None if it can."""
    from transformers import PreTrainedModel

    # A class may inherit its attention from another file.
    modules = [of.__module__ for of in model.__mro__ if issubclass(of, PreTrainedModel) and of is not PreTrainedModel]
    has_interface = model._supports_sdpa or model._supports_attention_backend  # type: ignore[attr-defined]
    if not has_interface and any(_ATTENTION_CODE.search(_source(module) or "softmax") for module in modules):
        return "transformers says that its attention has no interface for other implementations"
    return next(filter(None, map(_refusal_of, modules)), None)


# Patterns in the source of models: code that computes attention, attention layers, calls of transformers' interface,
# tables of classes by implementation, comparisons with "sdpa".
_ATTENTION_CODE = re.compile(r"softmax|^class \w*Attention", re.MULTILINE)
_LAYER = re.compile(r"^class \w*Attention\w*\((?:torch\.)?nn\.Module\):", re.MULTILINE)
_INTERFACE = re.compile(r"ALL_ATTENTION_FUNCTIONS(?:\.get_interface\(|\[)")
_TABLE = re.compile(r"^\w*ATTENTION_CLASSES\b.*=", re.MULTILINE)
_NAMED = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*[^\n]*[\"']sdpa[\"']")


@functools.lru_cache(maxsize=None)
def _refusal_of(module: str) -> str | None:
    """Returns the reason why the code of a module cannot run with this attention, or None if it can."""
    source = _source(module)
    if _LAYER.search(source) and not _INTERFACE.search(source):
        return "its attention does not go through transformers' interface"
    if _TABLE.search(source):
        return "it has a class of its own for each implementation"
    if _NAMED.search(source) and module.split(".")[-2:-1] not in ([name] for name in _CUTS_QUERIES):
        return 'its code treats "eager" and "sdpa" otherwise than other implementations'
    return None


@contextlib.contextmanager
def weights() -> Iterator[None]:
    """Inside this context, attention modules return their weights even if they ignore ``output_attentions``."""
    global _wants_weights
    before, _wants_weights = _wants_weights, True
    try:
        yield
    finally:
        _wants_weights = before
