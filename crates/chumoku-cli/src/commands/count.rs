//! Implements `chumoku count`: parameters, multiply-adds, bytes and memory of every step, and networks side by side.

use crate::args;
use crate::models::model_name;
use crate::pictures::OutputFiles;
use crate::{ExitCode, UsageError};
use chumoku::count::{CountConfig, NetworkKind};
use chumoku::nn::NormOrder;
use chumoku::{ModelSize, WeightSample, tr};
use chumoku_view::CountReport;
use clap::ValueEnum;

pub(crate) fn run(args: &args::CountArgs) -> anyhow::Result<ExitCode> {
    let model = args.model.as_deref().map(ModelSize::read).transpose()?;
    let config = match &model {
        Some(model) => CountConfig {
            batch: args.batch,
            length: args.length.unwrap_or(model.config.length),
            target_length: args.target_length,
            ..model.config
        },
        None => config_from_flags(args),
    };
    check_flags(args, config.network)?;
    let model = args.model.as_deref().map(model_name).zip(model);
    let report = CountReport::new(config, model)?;
    let mut outcome = OutputFiles::default();
    let lang = chumoku::lang::lang();
    if args.pictures.is_any_given() {
        args.pictures.write(&report.map(lang), &mut outcome);
    }
    if let Some(path) = &args.html {
        let weights = match (args.model.as_deref(), &report.model) {
            (Some(folder), Some((_, size))) => WeightSample::read_all(folder, size)?,
            _ => None,
        };
        if weights.is_none() && args.model.is_some() {
            say!(
                "{}",
                tr!(
                    "note: the model is too large to put samples of its weights on the page",
                    "注: モデルが大きいため、ページには重みの一部を載せません"
                )
            );
        }
        outcome.write(path, || Ok(report.map_to_html(weights.as_deref(), lang)));
    }
    outcome.report();
    outcome.result()?;
    let text = if args.json { report.to_json() + "\n" } else { report.to_text() };
    std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the sizes given on the command line.
fn config_from_flags(args: &args::CountArgs) -> CountConfig {
    let name = args.network.to_possible_value().expect("no network is hidden");
    let network = NetworkKind::from_name(name.get_name()).expect("flags name networks as the library does");
    let defaults = CountConfig::default();
    CountConfig {
        network,
        batch: args.batch,
        length: args.length.unwrap_or(defaults.length),
        keys: args.keys,
        target_length: args.target_length,
        d_model: args.d_model,
        num_heads: args.heads,
        num_key_heads: args.kv_heads,
        head_dim: args.head_dim,
        d_ff: args.d_ff.unwrap_or_else(|| args.d_model.saturating_mul(4)),
        num_layers: args.layers.unwrap_or(if is_attention(network) { 1 } else { defaults.num_layers }),
        num_decoder_layers: args.decoder_layers,
        vocab_size: args.vocab.unwrap_or(0),
        target_vocab_size: args.target_vocab,
        num_classes: args.classes.unwrap_or(0),
        untied: args.untied,
        bias: !args.no_bias,
        qkv_bias: args.no_qkv_bias.then_some(false),
        output_projection: !args.no_output_projection,
        learned_positions: args.positions.unwrap_or(0),
        norm_order: if args.pre_norm { NormOrder::Pre } else { NormOrder::Post },
        hidden_size: args.hidden,
        bidirectional: args.bidirectional,
        ..defaults
    }
}

/// Returns whether a network is a layer of attention alone.
fn is_attention(network: NetworkKind) -> bool {
    matches!(network, NetworkKind::Attention | NetworkKind::AdditiveAttention)
}

/// Refuses a flag without effect on the network.
fn check_flags(args: &args::CountArgs, network: NetworkKind) -> Result<(), UsageError> {
    let is_attention = is_attention(network);
    let has_heads = network != NetworkKind::AdditiveAttention;
    let is_translator = network == NetworkKind::EncoderDecoder;
    let writes = is_translator || network == NetworkKind::Decoder;
    let flags = [
        ("--target-length", args.target_length.is_some(), is_translator),
        ("--keys", args.keys.is_some(), is_attention),
        ("--kv-heads", args.kv_heads.is_some(), has_heads),
        ("--head-dim", args.head_dim.is_some(), has_heads),
        ("--no-qkv-bias", args.no_qkv_bias, has_heads),
        ("--no-output-projection", args.no_output_projection, has_heads),
        ("--d-ff", args.d_ff.is_some(), !is_attention),
        ("--layers", args.layers.is_some_and(|layers| layers != 1), !is_attention),
        ("--decoder-layers", args.decoder_layers.is_some(), is_translator),
        ("--target-vocab", args.target_vocab.is_some(), is_translator),
        ("--classes", args.classes.is_some(), !writes),
        ("--untied", args.untied, writes),
        ("--pre-norm", args.pre_norm, !is_attention),
        ("--hidden", args.hidden.is_some(), !writes),
        ("--bidirectional", args.bidirectional, !writes),
    ];
    let Some((flag, ..)) = flags.into_iter().find(|&(_, is_given, is_used)| is_given && !is_used) else {
        return Ok(());
    };
    let name = network.name();
    Err(UsageError(tr!(
        "count: {flag} has no effect on the network “{name}”; leave it out, or choose another network with --network",
        "count: {flag} はネットワーク「{name}」には関係しません。外すか、--network で別のものを指定してください"
    )))
}
