"""Small random models of transformers' architectures. Each must match eager attention or reject ours.

A selection runs by default. CHUMOKU_EXHAUSTIVE=chumoku-py (or all) runs every architecture that can be built.
"""

import contextlib
import inspect
import os
import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import chumoku.transformers  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES  # noqa: E402

chumoku.transformers.register()

# Sizes and rates under their names in configurations.
SIZES = [
    (4, "num_attention_heads n_head n_heads num_heads attention_heads encoder_attention_heads decoder_attention_heads"),
    (4, "num_experts num_local_experts n_routed_experts"),
    (2, "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers depth"),
    (2, "num_key_value_heads num_experts_per_tok eos_token_id"),
    (32, "hidden_size d_model n_embd dim embed_dim emb_dim embedding_size moe_intermediate_size image_size"),
    (64, "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff ffn_dim hidden_dim"),
    (8, "head_dim attention_head_dim d_kv qk_rope_head_dim qk_nope_head_dim v_head_dim patch_size hidden_size_per_layer_input"),
    (16, "q_lora_rank kv_lora_rank"),
    (128, "n_positions max_position_embeddings"),
    (99, "vocab_size vocab_size_per_layer_input entity_vocab_size"),
    (6, "sliding_window"),
    (3, "num_channels"),
    (1, "n_group topk_group first_k_dense_replace bos_token_id"),
    (0, "pad_token_id decoder_start_token_id"),
    (0.0, "dropout attention_dropout activation_dropout hidden_dropout_prob attention_probs_dropout_prob resid_pdrop embd_pdrop"),
    (0.0, "attn_pdrop dropout_rate hidden_dropout embedding_dropout layerdrop encoder_layerdrop decoder_layerdrop"),
]
SMALL = {name: size for size, names in SIZES for name in names.split()}

# Sizes for other architectures: as many key heads as heads, and enough layers for every kind. The first variant that
# runs is used.
VARIANTS = [{}, {"num_key_value_heads": 4}, {"num_hidden_layers": 8}, {"num_hidden_layers": 8, "num_key_value_heads": 4}]
OF_ONE = {
    "autoformer": {"prediction_length": 4},
    "bamba": {"mamba_n_heads": 4, "mamba_d_head": 16},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"mamba_n_heads": 4, "mamba_d_head": 16},
    "mamba2": {"num_heads": 8},
    "reformer": {"is_decoder": True},
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}

# Larger models take too long.
MOST_PARAMETERS = 60_000_000


def config(kind, **others):
    """A small configuration of a class, including its nested configurations."""
    known = {name for of in kind.__mro__ for name in getattr(of, "__annotations__", {})} | set(inspect.signature(kind).parameters)
    given = {name: size for name, size in (SMALL | others).items() if name in known}
    for name, part in (getattr(kind, "sub_configs", None) or {}).items():
        try:
            if part is transformers.AutoConfig:
                part = type(getattr(kind(), name))
            given[name] = config(part, **others).to_dict()
        except Exception:  # noqa: S112
            # The model may have a default for this part.
            continue
    for _ in range(8):
        try:
            return kind(**given)
        except Exception as error:
            # The field has another type, such as a size for each stage.
            field = re.search(r"Field '(\w+)'", str(error))
            if field is None or given.pop(field[1], None) is None:
                raise
    return kind(**given)


TASKS = [
    (transformers.AutoModelForCausalLM, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    (transformers.AutoModelForMaskedLM, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    (transformers.AutoModelForSeq2SeqLM, modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
    (transformers.AutoModel, modeling_auto.MODEL_MAPPING_NAMES),
]


def model(name, implementation, device="cpu", variant=VARIANTS[0]):
    """Builds a model from a copy of the configuration. (`from_config` modifies its argument.)"""
    auto = next(auto for auto, names in TASKS if name in names)
    torch.manual_seed(0)
    with torch.device(device):
        made = auto.from_config(config(CONFIG_MAPPING[name], **variant, **OF_ONE.get(name, {})), attn_implementation=implementation)
    # A fresh model has such small weights that its attention is nearly uniform. Scale them up.
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in made.parameters():
            if device == "cpu" and p.is_floating_point():
                p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return made.eval()


def inputs(made, side):
    """Returns each kind of input that the model may take, most likely first."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(3, 99, (3, 17), generator=generator)
    mask = torch.ones_like(ids)
    for row, length in enumerate((17, 11, 4)):
        mask[row, slice(length, None) if side == "right" else slice(0, 17 - length)] = 0
    text = {"input_ids": ids} | ({} if side == "none" else {"attention_mask": mask})
    if made.config.is_encoder_decoder:
        text["decoder_input_ids"] = ids[:, :9]
    known = inspect.signature(made.forward).parameters
    text = {name: x for name, x in text.items() if name in known or "kwargs" in known and name != "input_ids"}
    images = {"pixel_values": torch.randn(3, 3, 32, 32, generator=generator)}
    waves = {"input_values": torch.randn(3, 4000, generator=generator)}
    found = [text, images, text | images, waves] if "input_ids" in known else [images, waves]
    return [(each, mask) for each in found if all(name in known for name in each if name != "attention_mask")]


def answer(made, given):
    with torch.no_grad():
        found = made(**given)
    for name in ("logits", "last_hidden_state", "logits_per_image", "image_embeds", "pred_masks", "predicted_depth"):
        if isinstance(getattr(found, name, None), torch.Tensor):
            return getattr(found, name)
    raise ValueError(f"no answer among {list(found)}")


def under_autocast(made, given):
    with torch.autocast("cpu"):
        return answer(made, given).float()


def difference(found, expected, side, given, mask):
    """The largest difference between outputs outside padding, relative to expected values of about 1 or less."""
    if side != "none" and "input_ids" in given and expected.dim() > 1 and expected.shape[1] == mask.shape[1]:
        expected, found = expected[mask.bool()], found[mask.bool()]
    return (found - expected).abs().max().item() / max(1.0, expected.abs().max().item())


class CannotBeMade(Exception):
    """Raised if no small model of an architecture can be built or run."""


def made(name):
    """Returns the outputs of a model with eager attention, their error under autocast, and the variant that was built.
    """
    if not any(name in names for _, names in TASKS):
        raise CannotBeMade("a part of another model")
    failed = None
    for variant in VARIANTS:
        try:
            size = sum(p.numel() for p in model(name, "eager", "meta", variant).parameters())
            if size > MOST_PARAMETERS:
                failed = CannotBeMade(f"{size} parameters")
                continue
            eager = model(name, "eager", variant=variant)
        except Exception as error:
            failed = failed or error
            continue
        answers = []
        for side in ("right", "left", "none"):
            for given, mask in inputs(eager, side):
                try:
                    expected, half = answer(eager, given), None
                except Exception as error:
                    failed = error
                    continue
                # (Some models cannot run under autocast.)
                with contextlib.suppress(Exception):
                    half = difference(under_autocast(eager, given), expected, side, given, mask)
                answers.append((side, given, mask, expected, half))
                break
        if answers:
            return answers, variant
    raise CannotBeMade(f"{type(failed).__name__}: {failed}")


def compared(name, monkeypatch):
    """Compares a model to eager attention. Returns "right" or "refused", and the number of calls of our attention."""
    calls, attend = [], chumoku.transformers.attention
    monkeypatch.setattr(chumoku.transformers, "attention", lambda *a, **k: calls.append(1) or attend(*a, **k))
    answers, variant = made(name)
    try:
        ours = model(name, "chumoku", variant=variant)
    except ValueError as error:
        assert 'does not support attn_implementation="chumoku"' in str(error) and "eager" in str(error), error
        return "refused", 0
    for side, given, mask, expected, half in answers:
        off = difference(answer(ours, given), expected, side, given, mask)
        assert off < 2e-5, f"{name}, {side}: {off:.1e}"
        if half is not None:
            # The same error as eager attention has in bfloat16.
            off = difference(under_autocast(ours, given), expected, side, given, mask)
            assert off < 3 * half + 0.02, f"{name}, {side}, autocast: {off:.1e}, of eager attention {half:.1e}"
    return "right", len(calls)


# Architectures that once failed, and some of each kind.
RIGHT = ["albert", "bart", "gemma2", "gemma4_text", "gpt_neox", "llama", "mt5", "opt", "vit", "whisper"]
REFUSED = (
    "bark bigbird_pegasus bloom convbert data2vec-vision deepseek_v32 falcon git gpt_neo ibert led megatron-bert mpnet nllb-moe "
    "nystromformer pegasus_x rembert roformer squeezebert xglm"
).split()
NO_ATTENTION = ["resnet", "mamba", "fnet"]


@pytest.mark.parametrize("name", RIGHT)
def test_supported_models_match_eager_attention(name, monkeypatch):
    found, calls = compared(name, monkeypatch)
    assert found == "right" and calls


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_models_are_rejected(name):
    with pytest.raises(ValueError, match='does not support attn_implementation="chumoku".*use attn_implementation="eager"'):
        model(name, "chumoku", "meta")


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_models_without_attention(name, monkeypatch):
    assert compared(name, monkeypatch) == ("right", 0)


def is_exhaustive():
    return not {"all", "chumoku-py"}.isdisjoint(os.environ.get("CHUMOKU_EXHAUSTIVE", "").split(","))


@pytest.mark.parametrize("name", list(CONFIG_MAPPING_NAMES) if is_exhaustive() else [])
def test_every_architecture(name, monkeypatch):
    try:
        found, calls = compared(name, monkeypatch)
    except CannotBeMade as why:
        pytest.skip(str(why).replace("\n", " ")[:120])
    print(name, found, calls)
