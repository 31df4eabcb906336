"""Tiny random models of transformers, with our attention and with "eager"."""

import contextlib
import copy
import importlib

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import chumoku  # noqa: E402
import chumoku.torch  # noqa: E402
import chumoku.transformers  # noqa: E402
from tiny import BOTH, COMMON, DECODERS, ENCODERS, model  # noqa: E402

chumoku.transformers.register()

def pair(name):
    auto = transformers.AutoModel if name in ENCODERS else transformers.AutoModelForCausalLM
    if name in BOTH:
        auto = transformers.AutoModelForSeq2SeqLM
    try:
        return [model(name, implementation, auto) for implementation in ("eager", "chumoku")]
    except (ValueError, ImportError) as error:
        # A model without the attention interface reports it.
        if "attn_implementation" in str(error) or "does not support" in str(error):
            pytest.skip(str(error)[:90])
        raise


def batch(side):
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(3, 99, (3, 17), generator=generator)
    mask = torch.ones_like(ids)
    for row, length in enumerate((17, 11, 4)):
        empty = slice(length, None) if side == "right" else slice(0, 17 - length)
        mask[row, empty] = 0
    return {"input_ids": ids, "attention_mask": mask}


def states(made, name, inputs):
    if name in BOTH:
        inputs = inputs | {"decoder_input_ids": inputs["input_ids"][:, :9]}
    found = made(**inputs, output_hidden_states=True)
    return found.decoder_hidden_states[-1] if name in BOTH else found.hidden_states[-1]


def close(a, b, mask):
    size = mask.shape[1] if a.shape[1] == mask.shape[1] else a.shape[1]
    seen = mask.bool()[:, :size] if a.shape[1] == mask.shape[1] else torch.ones(a.shape[:2], dtype=torch.bool)
    a, b = a[seen], b[seen]
    scale = max(1.0, a.abs().max().item())
    torch.testing.assert_close(a / scale, b / scale, atol=5e-6, rtol=0)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", ENCODERS + DECODERS + BOTH)
def test_hidden_states(name, side):
    eager, ours = pair(name)
    assert ours.config._attn_implementation == "chumoku"
    inputs = batch(side)
    with torch.no_grad():
        close(states(eager, name, inputs), states(ours, name, inputs), inputs["attention_mask"])


@pytest.mark.parametrize("name", DECODERS + BOTH)
def test_generated_tokens(name):
    eager, ours = pair(name)
    inputs = batch("left")
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    assert torch.equal(eager.generate(**inputs, **options), ours.generate(**inputs, **options))


@pytest.mark.parametrize("name", ENCODERS + DECODERS + BOTH)
def test_training(name):
    eager, ours = pair(name)
    inputs = batch("right")
    gradients = []
    for made in (eager, ours):
        mask = inputs["attention_mask"]
        found = states(made, name, inputs)
        seen = mask.bool()[:, : found.shape[1]]
        (found[seen].double() ** 2).sum().backward()
        gradients.append({n: p.grad for n, p in made.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    largest = max(gradient.abs().max().item() for gradient in gradients[0].values())
    for n, gradient in gradients[0].items():
        # Some are 0 except for rounding: key biases shift all scores of a query equally.
        scale = max(gradient.abs().max().item(), 1e-3 * largest)
        torch.testing.assert_close(gradient / scale, gradients[1][n] / scale, atol=2e-4, rtol=0, msg=lambda m: f"{n}: {m}")


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt_oss"])
def test_weights(name):
    eager, ours = pair(name)
    inputs = batch("right")
    with torch.no_grad(), chumoku.transformers.weights():
        expected = eager(**inputs, output_attentions=True).attentions
        found = ours(**inputs, output_attentions=True).attentions
    assert len(found) == 2
    for a, b in zip(expected, found):
        rows = inputs["attention_mask"].bool()[:, None, :, None].expand_as(b)
        torch.testing.assert_close(a[..., : b.shape[-1]][rows], b[rows], atol=5e-6, rtol=0)


def test_unknown_attention_arguments_are_rejected():
    q = torch.zeros(1, 1, 2, 4)
    module = torch.nn.Module()
    for name in ("indices", "block_indices", "cache"):
        with pytest.raises(ValueError, match=f"'{name}' of Module is not known; use attn_implementation=\"eager\""):
            chumoku.transformers._attention(module, q, q, q, None, **{name: torch.zeros(1)})
    # Models name more of these arguments in their own code.
    named = importlib.import_module("transformers.models.gemma2.modeling_gemma2").__name__
    assert "softcap" in chumoku.transformers._named_at_calls(named)


def test_pass_through_arguments_are_ignored():
    """Trainers and loaders of transformers pass these to a model, which forwards them to attention."""
    _, ours = pair("llama")
    ids = {"input_ids": batch("right")["input_ids"]}
    with torch.no_grad():
        expected = ours(**ids).logits
        assert torch.equal(ours(**ids, shift_labels=ids["input_ids"], seq_idx=ids["input_ids"], num_items_in_batch=3).logits, expected)


@pytest.mark.parametrize("name", ENCODERS + DECODERS + BOTH)
def test_under_autocast(name):
    """Rotary positions leave queries in float32 and values in bfloat16."""
    eager, ours = pair(name)
    inputs = batch("right")
    seen = inputs["attention_mask"].bool()
    with torch.autocast("cpu"), torch.no_grad():
        expected, found = states(eager, name, inputs), states(ours, name, inputs)
    if expected.shape[1] == seen.shape[1]:
        expected, found = expected[seen], found[seen]
    scale = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(found.float() / scale, expected.float() / scale, atol=0.05, rtol=0)


def test_models_without_the_interface_are_rejected():
    """Rejected when the model is created and in `set_attn_implementation`."""
    config = transformers.BloomConfig(vocab_size=99, hidden_size=32, n_layer=2, n_head=4)
    refusal = 'BloomForCausalLM does not support attn_implementation="chumoku".*use attn_implementation="eager"'
    with pytest.raises(ValueError, match=refusal):
        transformers.AutoModelForCausalLM.from_config(config, attn_implementation="chumoku")

    class Own(transformers.BloomForCausalLM):
        pass

    with pytest.raises(ValueError, match='Own does not support attn_implementation="chumoku"'):
        Own._from_config(config, attn_implementation="chumoku")
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with pytest.raises(ValueError, match=refusal) if made._can_set_attn_implementation() else contextlib.nullcontext():
        made.set_attn_implementation("chumoku")
    assert made.config._attn_implementation == "eager"


def test_dropped_queries_keep_their_position():
    """Gemma 4 computes only the last queries, after creating the mask."""
    config = transformers.Gemma4TextConfig(**COMMON | dict(intermediate_size=64, num_key_value_heads=2, head_dim=8, hidden_size_per_layer_input=8, vocab_size_per_layer_input=99, global_head_dim=8))
    made = []
    for implementation in ("eager", "chumoku"):
        torch.manual_seed(0)
        made.append(transformers.AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation).eval())
    ids = batch("right")["input_ids"]
    with torch.no_grad():
        expected, found = (model(input_ids=ids, logits_to_keep=3).logits for model in made)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_packed_sequences_need_a_mask():
    q = torch.zeros(1, 1, 2, 4)
    packed = {"cu_seq_lens_q": torch.tensor([0, 1, 2])}
    with pytest.raises(ValueError, match="cu_seq_lens_q"):
        chumoku.transformers._attention(torch.nn.Module(), q, q, q, None, **packed)
    seen = torch.eye(2, dtype=torch.bool)[None, None]
    assert chumoku.transformers._attention(torch.nn.Module(), q, q, q, seen, **packed)[0].shape == (1, 2, 1, 4)


def test_padding_masks_take_no_memory(monkeypatch):
    _, ours = pair("bert")
    masks, attend = [], chumoku.transformers.attention

    def watched(*arguments, mask=None, **keywords):
        masks.append(mask)
        return attend(*arguments, mask=mask, **keywords)

    monkeypatch.setattr(chumoku.transformers, "attention", watched)
    with torch.no_grad():
        ours(**batch("right"))
    assert len(masks) == 2 and all(mask.shape == (3, 1, 17, 17) and mask.stride(2) == 0 for mask in masks)


def test_dropout_of_weights_in_training():
    torch.manual_seed(0)
    made = transformers.AutoModel.from_config(
        transformers.BertConfig(**COMMON, intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5),
        attn_implementation="chumoku",
    )
    inputs = batch("right")
    made.train()
    a, b = made(**inputs).last_hidden_state, made(**inputs).last_hidden_state
    assert not torch.equal(a, b)
    torch.manual_seed(1)
    a = made(**inputs).last_hidden_state
    torch.manual_seed(1)
    assert torch.equal(a, made(**inputs).last_hidden_state)
    made.eval()
    assert torch.equal(made(**inputs).last_hidden_state, made(**inputs).last_hidden_state)


def test_weights_are_returned_only_on_request():
    _, ours = pair("gpt2")
    ids = {"input_ids": batch("right")["input_ids"]}
    with torch.no_grad():
        with chumoku.transformers.weights():
            with chumoku.transformers.weights():
                pass
            assert ours(**ids, output_attentions=True).attentions[0] is not None
        assert not any(x is not None for x in ours(**ids, output_attentions=True).attentions)
        bert = pair("bert")[1].to(torch.bfloat16)
        assert bert(**ids, output_attentions=True).attentions[0].dtype == torch.bfloat16
