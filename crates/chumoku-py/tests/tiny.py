"""Tiny random models of transformers. Requires PyTorch and transformers."""

import torch
import transformers

COMMON = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
GROUPED = COMMON | dict(intermediate_size=64, num_key_value_heads=2, max_position_embeddings=128)


def config(name):
    t = transformers
    if name == "bert":
        return t.BertConfig(**COMMON, intermediate_size=64, **NO_DROPOUT)
    if name == "distilbert":
        return t.DistilBertConfig(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0, attention_dropout=0.0)
    if name == "roberta":
        return t.RobertaConfig(**COMMON, intermediate_size=64, pad_token_id=1, **NO_DROPOUT)
    if name == "modernbert":
        return t.ModernBertConfig(
            **COMMON, intermediate_size=64, global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, cls_token_id=1, sep_token_id=2, reference_compile=False,
        )
    if name == "gpt2":
        return t.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=128, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    if name == "llama":
        return t.LlamaConfig(**GROUPED)
    if name == "qwen3":
        return t.Qwen3Config(**GROUPED, head_dim=8)
    if name == "gemma2":
        return t.Gemma2Config(**GROUPED, head_dim=8, sliding_window=6, query_pre_attn_scalar=8, attn_logit_softcapping=2.0)
    if name == "gpt_oss":
        return t.GptOssConfig(
            **GROUPED, head_dim=8, sliding_window=6, num_local_experts=2, num_experts_per_tok=1,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        )
    if name == "t5":
        return t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0)
    return t.MarianConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=128, dropout=0.0, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=0, forced_eos_token_id=None, scale_embedding=True,
    )


ENCODERS = ["bert", "distilbert", "roberta", "modernbert"]
DECODERS = ["gpt2", "llama", "qwen3", "gemma2", "gpt_oss"]
BOTH = ["t5", "marian"]


def model(name, implementation, kind):
    torch.manual_seed(0)
    made = kind.from_config(config(name), attn_implementation=implementation)
    # A fresh model has such small weights that its attention is nearly uniform. Scale them up.
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return made.eval()
