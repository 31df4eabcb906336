"""`chumoku.torch.watch` with many kinds of models: custom attention code, answer spans, compiled models, broadcast
inputs."""

import math

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

import torch.nn.functional as F  # noqa: E402

import chumoku  # noqa: E402
import chumoku.torch  # noqa: E402
from test_watch import Names, batch  # noqa: E402

SIZES = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)


def shaken(model):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return model.eval()


def watched(model, *args, tokenizer=None, **inputs):
    with torch.no_grad(), chumoku.torch.watch(model, tokenizer) as seen:
        output = model(*args, **inputs)
    return seen, output


def log_odds(p):
    return math.log(p / (1 - p))


def test_question_answering_models():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, inputs = shaken(transformers.BertForQuestionAnswering(transformers.BertConfig(**SIZES))), batch("left")
    seen, output = watched(model, tokenizer=Names(), **inputs)
    found = seen.explain(item=1)
    ids = inputs["input_ids"][1, 3:].tolist()
    assert found.words == [f"t{i}" for i in ids] and found.data["kind"] == "classifier"

    def spans(output, row, places):
        start, end = (z[row, places].double().softmax(-1) for z in (output.start_logits, output.end_logits))
        return {(a, b): float(start[a] * end[b]) for a in range(len(start)) for b in range(a, len(start))}

    shares = spans(output, 1, slice(3, 9))
    (a, b), best = max(shares.items(), key=lambda each: each[1])
    assert found.label == " ".join(f"t{i}" for i in ids[a : b + 1]) and len(found.probabilities) == 10
    assert abs(found.probabilities[found.label] - best) < 1e-5
    place = next(k for k in range(6) if not a <= k <= b)
    left = [i for i in range(9) if i != 3 + place]
    with torch.no_grad():
        other = model(**{name: x[1:, left] for name, x in inputs.items()})
    p = spans(other, 0, slice(3, 8))[a - (a > place), b - (b > place)]
    assert abs(found.effects[place] - (log_odds(best) - log_odds(p))) < 1e-3
    named = [f"w{i}" for i in range(6)]
    assert seen.explain(item=1, tokens=named).label == " ".join(named[a : b + 1])
    # A model with a decoder reads the text on both sides.
    sizes = dict(encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64)
    config = transformers.BartConfig(vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=1, max_position_embeddings=64, **sizes)
    seen, _ = watched(shaken(transformers.BartForQuestionAnswering(config)), **batch())
    assert seen.explain(item=1).attention.shape == (1, 4, 6, 6)


@pytest.mark.parametrize("name", ["DebertaV2ForSequenceClassification", "XLNetForSequenceClassification", "MPNetForMaskedLM",
                                  "BloomForCausalLM", "GPTNeoForCausalLM"])  # fmt: skip
def test_models_with_custom_attention_code(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    own = {
        "DebertaV2": SIZES | dict(relative_attention=True, pos_att_type=["c2p", "p2c"]),
        "XLNet": dict(vocab_size=99, d_model=32, n_layer=2, n_head=4, d_inner=64),
        "MPNet": SIZES,
        "Bloom": dict(vocab_size=99, hidden_size=32, n_layer=2, n_head=4),
        "GPTNeo": dict(vocab_size=99, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                       intermediate_size=64, max_position_embeddings=64),
    }  # fmt: skip
    config = getattr(transformers, name.partition("For")[0] + "Config")(**own[name.partition("For")[0]])
    model, inputs = shaken(getattr(transformers, name)(config)), batch(missing=0 if "XLNet" in name else 3)
    expected = torch.stack(model(**inputs, output_attentions=True).attentions).detach()
    seen, output = watched(model, **inputs)
    assert len(seen) == 2 and [entry.layer for entry in seen] == [0, 1]
    n = int(inputs["attention_mask"][1].sum())
    np.testing.assert_allclose(seen.explain(item=1).attention, expected[:, 1, :, :n, :n].numpy(), atol=1e-5)
    weights = expected[0]
    torch.testing.assert_close(seen[0].weights(), weights)
    torch.testing.assert_close(seen[0].mass, weights.sum(-2))
    torch.testing.assert_close(seen[0].entropy, torch.special.entr(weights).sum(-1))
    assert seen[0].top_keys.shape == (2, 4, 9, 8)
    torch.testing.assert_close(seen[0].top_weights[..., 0], weights.max(-1).values)


class Own(torch.nn.Module):
    """A custom module that computes attention in a given way."""

    def __init__(self, way):
        super().__init__()
        self.embedding, self.project, self.head = torch.nn.Embedding(99, 16), torch.nn.Linear(16, 48), torch.nn.Linear(16, 3)
        self.way, self.num_heads, self.dropout = way, 2, torch.nn.Dropout(0.3)

    def parts(self, ids):
        return tuple(x.unflatten(-1, (2, 8)).transpose(1, 2) for x in self.project(self.embedding(ids)).chunk(3, -1))

    def forward(self, ids):
        q, k, v = self.parts(ids)
        if self.way == "bmm":
            q, k, v = (x.flatten(0, 1) for x in (q, k, v))
            x = torch.bmm(self.dropout(torch.bmm(q, k.transpose(1, 2)).softmax(-1)), v).unflatten(0, (-1, 2))
        elif self.way == "einsum":
            x = torch.einsum("bhid,bhjd->bhij", q, k).softmax(dim=-1)
            x = torch.einsum("bhij,bhjd->bhid", self.dropout(x), v)
        elif self.way == "@":
            x = self.dropout(torch.softmax(q @ k.transpose(-1, -2), -1)) @ v
        else:
            x = torch.nn.Softmax(dim=-1)((q @ k.transpose(-1, -2)).double()).to(q.dtype)
            x = torch.matmul(self.dropout(x), v)
        return self.head(x.transpose(1, 2).flatten(2).mean(1)).softmax(-1)


@pytest.mark.parametrize("way", ["bmm", "einsum", "@", "module"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_step_by_step_attention_is_recorded(way, dtype):
    torch.manual_seed(0)
    model, ids = Own(way).to(getattr(torch, dtype)).train(), torch.randint(0, 99, (2, 7))
    torch.manual_seed(1)
    plain = model(ids)
    torch.manual_seed(1)
    with chumoku.torch.watch(model, top=9) as seen:
        assert torch.equal(model(ids), plain), "watching changes nothing"
    q, k, _ = model.parts(ids)
    expected = (q.float() @ k.float().transpose(-1, -2)).softmax(-1)
    assert [entry.shape for entry in seen] == [(2, 2, 7, 7)] and not seen[0].weights().requires_grad
    torch.testing.assert_close(seen[0].weights().float(), expected, atol=2e-2 if dtype == "bfloat16" else 1e-6, rtol=0)
    assert (seen[0].top_keys[..., 7:] == -1).all() and (seen[0].top_keys[..., :7].sort().values == torch.arange(7)).all()
    found = seen.explain(item=1)
    assert found.attention.shape == (1, 2, 7, 7) and found.page()


def test_other_softmax_results_are_not_recorded():
    class Gate(torch.nn.Module):
        def forward(self, x):
            kept = x.softmax(-1)
            return torch.softmax(x, 1) @ x.transpose(1, 2), kept * 2, (kept.sum(-1), x.softmax(-1).argmax(-1))

    seen, _ = watched(Gate(), torch.randn(2, 5, 4))
    assert len(seen) == 0


@pytest.mark.parametrize(
    ("query", "key", "mask", "options"),
    [((2, 4, 5, 8), (1, 4, 6, 8), None, {}), ((1, 4, 5, 8), (2, 4, 6, 8), (2, 1, 1, 6), {}), ((2, 4, 5, 8), (4, 6, 8), (5, 6), {}),
     ((2, 4, 5, 8), (2, 1, 6, 8), (4, 5, 6), {}), ((2, 4, 5, 8), (2, 2, 6, 8), None, {"enable_gqa": True}),
     ((3, 2, 4, 5, 8), (3, 1, 4, 6, 8), (2, 1, 5, 6), {}), ((5, 8), (6, 8), (5, 6), {}), ((2, 4, 5, 8), (2, 4, 6, 8), None, {"is_causal": True}),
     ((2, 4, 0, 8), (2, 4, 6, 8), None, {})],
)  # fmt: skip
def test_broadcast_calls(query, key, mask, options):
    class Call(torch.nn.Module):
        def forward(self, *args):
            return F.scaled_dot_product_attention(*args, **options)

    torch.manual_seed(0)
    q, k, v = (torch.randn(shape) for shape in (query, key, key))
    mask = None if mask is None else torch.rand(mask) > 0.3
    seen, output = watched(Call(), q, k, v, mask)
    assert torch.equal(output, F.scaled_dot_product_attention(q, k, v, mask, **options))
    ones = torch.eye(key[-2]).expand(*key[:-1], key[-2])
    expected = F.scaled_dot_product_attention(q, k, ones, mask, **options).nan_to_num()
    torch.testing.assert_close(seen[0].weights(), expected.reshape(seen[0].shape), atol=1e-6, rtol=0)


def test_invalid_calls_raise_as_without_a_watch():
    model = torch.nn.MultiheadAttention(16, 2, batch_first=True)
    call = lambda: F.scaled_dot_product_attention(torch.randn(2, 4, 5, 8), torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 8))
    with pytest.raises(RuntimeError) as plain:
        call()
    with chumoku.torch.watch(model), pytest.raises(RuntimeError) as inside:
        call()
    assert str(plain.value) == str(inside.value)


def test_tensors_without_data():
    model = Own("@").eval()
    model.forward = lambda x: F.scaled_dot_product_attention(x, x, x)
    with torch.no_grad(), chumoku.torch.watch(model) as seen:
        torch.vmap(model)(torch.randn(3, 4, 5, 8))
        torch.export.export(model, (torch.randn(2, 4, 5, 8),))
        F.scaled_dot_product_attention(*torch.randn(3, 1, 1, 2, 4, device="meta"))
    assert len(seen) == 0


@pytest.mark.parametrize("when", ["before", "inside", "of it", "in place"])
def test_compiled_models(when):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, ids = Own("@").eval(), torch.randint(0, 99, (2, 7))
    plain = model(ids)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    if when == "in place":
        model.compile(backend=backend)
        compiled = model
    else:
        compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        if when == "before":
            compiled(ids)
        before = len(graphs)
        with chumoku.torch.watch(compiled if when == "of it" else model) as seen:
            found = compiled(ids)
            inner = torch.compile(lambda x: model(x), backend=backend)(ids)
        assert len(graphs) == before, "nothing is compiled inside"
        torch.testing.assert_close(found, plain)
        torch.testing.assert_close(inner, plain)
        torch.testing.assert_close(compiled(ids), plain)
    assert len(graphs) == 1 and [entry.module for entry in seen] == ["", ""]
    assert seen.explain().attention.shape == (1, 2, 7, 7)


def test_pytorch_layers_with_masks():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model, x = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), torch.randn(5, 5, 16)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.zeros(5, 5, dtype=torch.bool)
    padding[1, 3:] = True
    # With as many texts as tokens, the mask must not be split by text.
    seen, output = watched(model, x, mask=causal, src_key_padding_mask=torch.zeros(5, 5).masked_fill(padding, -torch.inf))
    found = seen.explain(item=1)
    assert found.attention.shape == (2, 2, 3, 3) and found.data["causal"]
    with torch.no_grad():
        other = model(x[1:2, [0, 2]], mask=causal[:2, :2])[0].mean(0)
    expected = 1 - float(F.cosine_similarity(output[1, :3].mean(0), other, dim=0))
    assert abs(found.effects[1] - expected) < 1e-4
    # This mask changes when a token is removed.
    window = torch.where((torch.arange(5)[:, None] - torch.arange(5)).abs() < 2, 0.0, -torch.inf)
    seen, output = watched(model, x, mask=window)
    with torch.no_grad():
        for place, found in enumerate(seen.explain().effects):
            left = [i for i in range(5) if i != place]
            other = model(x[:1, left], mask=window[left][:, left])[0].mean(0)
            assert abs(found - (1 - float(F.cosine_similarity(output[0].mean(0), other, dim=0)))) < 1e-4
    both = torch.nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval()
    seen, _ = watched(both, torch.randn(2, 5, 16), torch.randn(2, 5, 16))
    assert len(seen) == 3 and seen.explain().attention.shape == (1, 2, 5, 5)


def test_multiple_choice_models_have_no_page():
    transformers = pytest.importorskip("transformers")
    model = transformers.BertForMultipleChoice(transformers.BertConfig(**SIZES)).eval()
    seen, _ = watched(model, torch.randint(3, 99, (2, 3, 7)))
    assert seen[0].shape == (6, 4, 7, 7)
    with pytest.raises(ValueError, match="chooses among 3 texts"):
        seen.explain()


def test_half_precision_and_caches():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = shaken(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2))).to(torch.bfloat16)
    seen, output = watched(model, **batch())
    found = seen.explain(item=1)
    assert found.attention.shape == (2, 4, 6, 6) and found.label == str(int(output.logits[1, 5].argmax()))
    for cache in (None, "static"):
        with torch.no_grad(), chumoku.torch.watch(model) as seen:
            model.generate(**batch("left"), max_new_tokens=3, do_sample=False, cache_implementation=cache)
        assert len(seen) == 6 and seen[2].shape[2] == 1
