"""Makes tiny random models in Hugging Face's format and what transformers computes for them. See ../README.md.

    python golden/make/pretrained.py [FOLDER]      writes FOLDER/pretrained/NAME/; FOLDER is golden/ if left out

Each sequence goes through the model on its own, in a batch of 1, and the rows are concatenated: nothing is padded, so
no mask can hide a mistake.
"""

import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # everything is made here: a name that looks like a model's must not be fetched

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MistralConfig,
    MistralForCausalLM,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from recorder import SEED, distance, to_bytes

VOCAB, WIDTH = 50, 16
FIRST_ID, LAST_ID = 4, VOCAB - 3  # ids outside this range are kept for padding, starts and ends
TOLERANCE = 1e-5
LABELS = dict(id2label={0: "negative", 1: "neutral", 2: "positive"}, label2id={"negative": 0, "neutral": 1, "positive": 2})

# The sizes under the names that each family of configurations gives them.
ENCODER = dict(
    vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
    max_position_embeddings=20,
)
DECODER = dict(
    vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=24, max_position_embeddings=64,
)
# Of llama_scaled's four frequencies the first is left alone, the second is in between, the others are divided by 8.
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
ROPES = {"full_attention": 20000.0, "sliding_attention": 500.0}

# (model, configuration, what follows). `lengths` are those of the sequences; `pairs` the number of tokens of the first
# text of each, type 0, before those of the second, type 1. `shows` are changed settings, each of which must change the
# results by far more than the tolerance: a setting that is not read then cannot pass.
CASES = {
    "bert": (BertModel, BertConfig(**ENCODER), dict(lengths=[7, 1, 4])),
    "bert_pair": (
        BertModel,
        BertConfig(**ENCODER, layer_norm_eps=1e-3),
        dict(lengths=[8, 1, 5], pairs=[5, 1, 2], shows=[dict(layer_norm_eps=1e-12)]),
    ),
    "bert_classifier": (BertForSequenceClassification, BertConfig(**ENCODER, **LABELS), dict(lengths=[6, 1, 4])),
    "distilbert_classifier": (
        DistilBertForSequenceClassification,
        DistilBertConfig(
            vocab_size=VOCAB, dim=WIDTH, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=20, **LABELS
        ),
        dict(lengths=[7, 1, 3]),
    ),
    "roberta_classifier": (
        RobertaForSequenceClassification,
        RobertaConfig(**ENCODER, type_vocab_size=1, layer_norm_eps=1e-5, **LABELS),
        dict(lengths=[6, 1, 5], shows=[dict(pad_token_id=0)]),
    ),
    "xlm_roberta": (  # padding is 1 in the models that are about; 3 shows whether it is read from the configuration
        XLMRobertaModel,
        XLMRobertaConfig(**ENCODER, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=3),
        dict(lengths=[7, 1, 4], shows=[dict(pad_token_id=1)]),
    ),
    "modernbert_classifier": (
        ModernBertForSequenceClassification,
        ModernBertConfig(
            vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=4, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=64, local_attention=4, global_attn_every_n_layers=3,
            global_rope_theta=ROPES["full_attention"], local_rope_theta=ROPES["sliding_attention"],
            classifier_pooling="mean", pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2,
            **LABELS,
        ),
        dict(
            lengths=[11, 1, 5],
            shows=[
                dict(local_attention=2),
                dict(local_attention=6),
                dict(layer_types=["full_attention"] * 4),
                dict(classifier_pooling="cls"),
                *(
                    dict(rope_parameters={
                        kind: dict(rope_type="default", rope_theta=100.0 if kind == changed else theta)
                        for kind, theta in ROPES.items()
                    })
                    for changed in ROPES
                ),
            ],
        ),
    ),
    "llama": (
        LlamaForCausalLM,
        LlamaConfig(**DECODER, tie_word_embeddings=True, rms_norm_eps=1e-5),
        dict(lengths=[7, 1, 4], shows=[dict(rope_parameters=dict(rope_type="default", rope_theta=500.0))]),
    ),
    "llama_scaled": (
        LlamaForCausalLM,
        LlamaConfig(
            **{**DECODER, "max_position_embeddings": 512}, head_dim=8, rms_norm_eps=1e-3,
            rope_parameters=dict(rope_theta=10000.0, **LLAMA3),
        ),
        dict(
            lengths=[13, 1, 6],
            shows=[
                dict(rms_norm_eps=1e-6),
                dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
                dict(rope_parameters=dict(rope_theta=10000.0, **{**LLAMA3, "factor": 2.0})),
                dict(rope_parameters=dict(rope_theta=10000.0, **{**LLAMA3, "low_freq_factor": 2.0})),
                dict(rope_parameters=dict(rope_theta=10000.0, **{**LLAMA3, "high_freq_factor": 2.0})),
            ],
        ),
    ),
    "mistral": (  # a token sees itself and three before it
        MistralForCausalLM,
        MistralConfig(**DECODER, sliding_window=4),
        dict(lengths=[9, 1, 5], shows=[dict(sliding_window=3), dict(sliding_window=5), dict(sliding_window=None)]),
    ),
    "qwen2": (
        Qwen2ForCausalLM,
        Qwen2Config(**DECODER, rope_parameters=dict(rope_type="default", rope_theta=1e6)),
        dict(lengths=[7, 1, 4], shows=[dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0))]),
    ),
    "qwen3": (
        Qwen3ForCausalLM,
        Qwen3Config(
            **DECODER, head_dim=8, tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e6)
        ),
        dict(lengths=[6, 1, 5], shows=[dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0))]),
    ),
    "gpt2": (
        GPT2LMHeadModel,
        GPT2Config(
            vocab_size=VOCAB, n_embd=WIDTH, n_layer=2, n_head=2, n_positions=20, layer_norm_epsilon=1e-3,
            bos_token_id=VOCAB - 1, eos_token_id=VOCAB - 1,
        ),
        dict(lengths=[7, 1, 4], shows=[dict(layer_norm_epsilon=1e-5), dict(activation_function="relu")]),
    ),
    "marian": (  # settings as in the models of OPUS-MT, but sizes that differ between encoder and decoder
        MarianMTModel,
        MarianConfig(
            vocab_size=VOCAB, d_model=WIDTH, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=32, max_position_embeddings=20,
            activation_function="swish", scale_embedding=True, pad_token_id=VOCAB - 1,
            decoder_start_token_id=VOCAB - 1, eos_token_id=0, forced_eos_token_id=0,
        ),
        dict(lengths=[6, 1, 4], target_lengths=[3, 5, 1], shows=[dict(scale_embedding=False)]),
    ),
}


class Float64Throughout(TorchFunctionMode):
    """Keeps float64 where transformers asks for float32.

    Its RMS norms, softmaxes and rotary angles go through float32 whatever the type of the model, for the good of half
    precision; of a float64 model they would leave no more than float32's digits.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args = [torch.float64 if value is torch.float32 else value for value in args]
        kwargs = {key: torch.float64 if value is torch.float32 else value for key, value in (kwargs or {}).items()}
        return function(*args, **kwargs)


def weights_of(model):
    """What is saved: parameters, tied ones once, and buffers; but nothing that is made anew from the configuration."""
    saved = model.state_dict().keys() - set(model._keys_to_ignore_on_save or [])  # Marian's table of positions
    return {name: weight for name, weight in [*model.named_parameters(), *model.named_buffers()] if name in saved}


def is_norm_weight(model, name):
    module, _, leaf = name.rpartition(".")
    return leaf == "weight" and type(model.get_submodule(module)).__name__.endswith("Norm")


def fill(model, random):
    """Fresh numbers, none of them zero or one, as norms and biases are when transformers makes them: a bias that is
    never added, or two norms whose names are mixed up, would not show."""
    with torch.no_grad():
        for name, weight in weights_of(model).items():
            values = random.standard_normal(tuple(weight.shape)) * (0.25 if weight.ndim > 1 else 0.2)
            weight.copy_(torch.tensor(values + is_norm_weight(model, name)))


def save(model, folder):
    """config.json and model.safetensors as transformers writes them; what else it writes is not needed."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as written:
        model.save_pretrained(written)
        for file in ("config.json", "model.safetensors"):
            shutil.copyfile(Path(written) / file, folder / file)


def draw_inputs(random, lengths, pairs=None, target_lengths=None, **_):
    def ids(count):
        return random.integers(FIRST_ID, LAST_ID + 1, count)

    inputs = {"ids": ids(sum(lengths)), "offsets": np.cumsum([0, *lengths])}
    if pairs:
        types = [[0] * first + [1] * (length - first) for first, length in zip(pairs, lengths)]
        inputs["types"] = np.concatenate(types)
    if target_lengths:
        inputs["target_ids"] = ids(sum(target_lengths))
        inputs["target_offsets"] = np.cumsum([0, *target_lengths])
        inputs["target_ids"][inputs["target_offsets"][:-1]] = VOCAB - 1  # a target starts with decoder_start_token_id
    inputs["dout"] = random.standard_normal((sum(target_lengths or lengths), WIDTH)).astype(np.float32)
    return inputs


def sequences_of(inputs):
    """The arguments of the model for one sequence after another."""
    names = {"ids": "input_ids", "types": "token_type_ids", "target_ids": "decoder_input_ids"}
    offsets, target_offsets = inputs["offsets"], inputs.get("target_offsets")
    for i in range(len(offsets) - 1):
        arguments = {}
        for key in names.keys() & inputs.keys():
            start, end = (target_offsets if key == "target_ids" else offsets)[i : i + 2]
            arguments[names[key]] = torch.tensor(inputs[key][None, start:end])
        yield arguments


def results_of(model, arguments):
    """The results of one sequence, rows of tokens or one row for all."""
    inner = []  # what the model gives to its head
    hook = model.base_model.register_forward_hook(lambda module, args, output: inner.append(output))
    outer = model(**arguments, output_hidden_states=True)
    hook.remove()
    (inner,) = inner
    results = {"last": inner.last_hidden_state, "logits": outer.get("logits"), "pooled": inner.get("pooler_output")}
    if model.config.is_encoder_decoder:
        states = {"encoder.hidden": inner.encoder_hidden_states, "hidden": inner.decoder_hidden_states}
        results["encoder.last"] = inner.encoder_last_hidden_state
    else:
        states = {"hidden": inner.hidden_states}
    for kind, hidden in states.items():
        results |= {f"{kind}.{i}": state for i, state in enumerate(hidden)}
        assert torch.equal(hidden[-1], results[kind.replace("hidden", "last")]), "the last hidden state is another one"
    # (1, tokens, width) and (1, width): a head for the whole sequence leaves one row
    return {key: value.flatten(0, -2) for key, value in results.items() if value is not None}


def run(model, inputs):
    """The packed results of all sequences."""
    results = [results_of(model, arguments) for arguments in sequences_of(inputs)]
    return {key: torch.cat([result[key] for result in results]) for key in results[0]}


def scalar(results, inputs):
    return (results["last"] * torch.tensor(inputs["dout"])).sum()


def gradients_of(model, inputs):
    """The results, and the gradient of Σ last · dout for every parameter: 0 for those of a head."""
    parameters = {name: weight for name, weight in weights_of(model).items() if isinstance(weight, nn.Parameter)}
    model.zero_grad()
    results = run(model, inputs)
    scalar(results, inputs).backward()
    none = torch.zeros_like
    return results, {name: none(p) if p.grad is None else p.grad.clone() for name, p in parameters.items()}


def numpy_of(tensors, prefix):
    return {f"{prefix}.{key}": value.detach().numpy().astype(np.float32) for key, value in tensors.items()}


def load(model_class, folder, dtype, **settings):
    model, report = model_class.from_pretrained(folder, dtype=dtype, output_loading_info=True, **settings)
    assert not any(report.values()), report
    return model.eval()


# Checks


def is_idle_key_bias(model, name):
    """A key bias moves every score of a query alike and so no softmax; but where keys are turned it does."""
    return not hasattr(model.base_model, "rotary_emb") and name.endswith(("key.bias", "k_lin.bias", "k_proj.bias"))


def check_gradients(model, inputs, gradients, random):
    """The derivative in a random direction is that of a finite difference, which float64 alone can give so exactly."""
    weights = weights_of(model)
    direction = {name: torch.tensor(random.standard_normal(tuple(g.shape))) for name, g in gradients.items()}
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None and f"{name}.weight" in direction:
            direction[f"{name}.weight"][module.padding_idx] = 0.0  # PyTorch gives the row of padding no gradient
    want = sum((gradients[name] * d).sum() for name, d in direction.items())
    size, ends = 1e-6, []
    with torch.no_grad():
        for step in (size, -2 * size, size):  # the last step goes back
            for name, d in direction.items():
                weights[name] += step * d
            ends.append(scalar(run(model, inputs), inputs))
    got = (ends[0] - ends[1]) / (2 * size)
    assert abs(got - want) <= 1e-6 * abs(want), f"finite difference {got}, gradient {want}"


def check_every_weight(model, inputs, results, random):
    """Every saved tensor must have a part in the results, or a name could be forgotten without anyone noticing."""
    with torch.no_grad():
        for name, weight in weights_of(model).items():
            kept = weight.clone()
            weight += torch.tensor(random.standard_normal(tuple(weight.shape)) * 0.1)
            altered = run(model, inputs)
            change = max((altered[key] - value).abs().max().item() for key, value in results.items())
            weight.copy_(kept)
            if is_idle_key_bias(model, name):
                assert change < 1e-12, f"{name}: a key bias changed a result by {change}"
            else:
                assert change > 1e-3, f"{name}: altered, results change by {change}"


def check_settings(model, inputs, results, shows):
    """Every change of settings must change the results."""
    for changes in shows:
        config = type(model.config).from_dict({**model.config.to_dict(), **changes})
        config._attn_implementation = "eager"
        altered = type(model)(config).double().eval()
        altered.load_state_dict(model.state_dict())
        with torch.no_grad():
            other = run(altered, inputs)
        change = max((other[key] - value).abs().max().item() for key, value in results.items())
        assert change > 1e-3, f"{changes}: results change by {change}"


def float32_distance(model, inputs, results, gradients):
    """How far float32, with PyTorch's fused attention, is from the file, and on which tensor."""
    got_results, got_gradients = gradients_of(model, inputs)
    worst = {"results": (0.0, ""), "gradients": (0.0, "")}
    for kind, got, want in (("results", got_results, results), ("gradients", got_gradients, gradients)):
        for key, value in want.items():
            if kind == "gradients" and is_idle_key_bias(model, key):
                continue
            a, b = got[key].detach().numpy(), value.detach().numpy()
            worst[kind] = max(worst[kind], (distance(a, b), key))
            if "hidden" in key:
                assert np.abs(a - b).max() <= TOLERANCE, f"{key}: float32 is {np.abs(a - b).max():.1e} off"
    for error, key in worst.values():
        assert error <= TOLERANCE, f"{key}: float32 is {error:.1e} off"
    return worst


def make(name, folder):
    model_class, config, settings = CASES[name]
    random = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    model = model_class(config).eval()
    fill(model, random)
    save(model, folder)
    inputs = draw_inputs(random, **settings)

    with Float64Throughout():
        exact = load(model_class, folder, torch.float64, attn_implementation="eager")
        results, gradients = gradients_of(exact, inputs)
        assert all(value.dtype == torch.float64 for value in (results | gradients).values())
        check_gradients(exact, inputs, gradients, random)
        exact = load(model_class, folder, torch.float64, attn_implementation="eager")  # as it was
        check_every_weight(exact, inputs, results, random)
        check_settings(exact, inputs, results, settings.get("shows", []))
    assert weights_of(exact).keys() == load_file(folder / "model.safetensors").keys()
    errors = float32_distance(load(model_class, folder, torch.float32), inputs, results, gradients)

    tensors = {f"in.{key}": value for key, value in inputs.items()}
    tensors |= numpy_of(results, "out") | numpy_of(gradients, "grad")
    attributes = {
        "case": name,
        "model": model_class.__name__,
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
    }
    (folder / "expected.safetensors").write_bytes(to_bytes(tensors, attributes))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:22} {size:6} bytes   float32 is off by", ", ".join(f"{e:.1e} {key}" for e, key in errors.values()))
    return size


def main():
    torch.set_num_threads(1)  # sums in one order, so every run gives the same bytes
    torch.manual_seed(SEED)  # what transformers draws is overwritten
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    parent = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent) / "pretrained"
    total = sum(make(name, parent / name) for name in CASES)
    print(f"{len(CASES)} folders, {total} bytes")


if __name__ == "__main__":
    main()
