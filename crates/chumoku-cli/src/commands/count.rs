//! `chumoku count`: parameters, multiply–adds, bytes and memory of every step, and networks side by side.

use crate::args::{self, Network};
use chumoku::Cell;
use chumoku::count::{Count, CountConfig, Counted};
use chumoku::data::thousands;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

pub(crate) fn run(args: &args::Count) -> anyhow::Result<ExitCode> {
    let network = match args.network {
        Network::Attention => Counted::Attention,
        Network::Transformer => Counted::Transformer,
        Network::Rnn => Counted::Recurrent(Cell::Rnn),
        Network::Lstm => Counted::Recurrent(Cell::Lstm),
        Network::Gru => Counted::Recurrent(Cell::Gru),
    };
    let config = CountConfig {
        network,
        batch: args.batch,
        length: args.length,
        keys: args.keys,
        d_model: args.d_model,
        num_heads: args.heads,
        num_key_heads: args.kv_heads,
        head_dim: args.head_dim,
        d_ff: args.d_ff.unwrap_or(4 * args.d_model),
        num_layers: args.layers,
        vocab_size: args.vocab.unwrap_or(0),
        num_classes: args.classes.unwrap_or(0),
        bias: !args.no_bias,
        output_projection: !args.no_output_projection,
        hidden_size: args.hidden,
        bidirectional: args.bidirectional,
        ..CountConfig::default()
    };
    let chosen = config.count()?;
    let is_alone = network == Counted::Attention;
    // Attention alone stands beside one layer of the others.
    let (first, num_layers) = match network {
        Counted::Attention => (Counted::Attention, 1),
        _ => (Counted::Transformer, config.num_layers),
    };
    let cells = [Cell::Rnn, Cell::Lstm, Cell::Gru].map(Counted::Recurrent);
    let networks = [first].into_iter().chain(cells);
    let beside: Vec<Count> = networks
        // What attention alone has not, the others are not to have either.
        .map(|network| {
            let (vocab_size, num_classes) = if is_alone { (0, 0) } else { (config.vocab_size, config.num_classes) };
            CountConfig { network, num_layers, vocab_size, num_classes, ..config }.count()
        })
        .collect::<chumoku::Result<_>>()?;
    let text = match args.json {
        true => json!({ "count": chosen, "side_by_side": beside }).to_string() + "\n",
        false => table(&config, &chosen) + &side_by_side(&config, &beside),
    };
    std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Bytes in the unit that people read them in.
fn memory(bytes: u64) -> String {
    let units = [("GB", 1u64 << 30), ("MB", 1 << 20), ("kB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

fn whole(n: u64) -> String {
    thousands(usize::try_from(n).unwrap_or(usize::MAX))
}

/// Every step.
fn table(config: &CountConfig, count: &Count) -> String {
    let mut out = String::new();
    let CountConfig { batch, length, d_model, num_heads, num_layers, .. } = config;
    let heads = match config.network {
        Counted::Recurrent(_) => String::new(),
        _ => format!(", {num_heads} heads"),
    };
    let layers = if config.network == Counted::Attention { String::new() } else { format!(", {num_layers} layers") };
    let _ = writeln!(out, "{}: batch {batch}, length {length}, width {d_model}{heads}{layers}\n", count.network);
    let _ = writeln!(out, "step                 parameters      multiply-adds                 bytes  growth");
    for step in &count.steps {
        let times = if step.times > 1 { format!(" ×{}", step.times) } else { String::new() };
        let none = |n: u64| if n == 0 { String::new() } else { whole(n) };
        let _ = writeln!(
            out,
            "{:<19} {:>11} {:>18}  {:<12} {:>8}  {}",
            format!("{}{times}", step.name),
            none(step.parameters),
            none(step.multiply_adds),
            step.multiply_adds_formula,
            memory(step.bytes),
            step.growth
        );
    }
    let _ = writeln!(
        out,
        "{:<19} {:>11} {:>18}  {:<12} {:>8}\n",
        "in all",
        whole(count.parameters),
        whole(count.multiply_adds),
        "",
        memory(count.bytes)
    );
    if let (Some(whole), Some(attention)) = (count.quadratic_from, count.attention_quadratic_from) {
        let _ =
            writeln!(out, "From length {attention:.0} on, the products of queries and keys (n²) cost more than the");
        let _ = match config.network {
            Counted::Transformer => {
                writeln!(out, "projections, and from length {whole:.0} on more than all that grows with n.")
            }
            _ => writeln!(out, "projections."),
        };
    }
    let (peak, held) = (memory(count.peak), memory(count.held));
    let _ = write!(out, "Memory: {peak} at the peak of a plain forward pass. Training holds {held}");
    let _ = match config.network {
        Counted::Recurrent(_) => writeln!(out, ".\n"),
        _ => writeln!(
            out,
            ",\nor {} with fused attention, which holds no array of queries × keys.\n",
            memory(count.held_fused)
        ),
    };
    out
}

/// Transformer and recurrent networks of these sizes.
fn side_by_side(config: &CountConfig, counts: &[Count]) -> String {
    let mut out = String::from("Side by side: the same width and layers\n");
    let _ = writeln!(out, "network       parameters      multiply-adds  steps in a row  held in training");
    for count in counts {
        let _ = writeln!(
            out,
            "{:<11} {:>12} {:>18} {:>15} {:>17}",
            count.network,
            whole(count.parameters),
            whole(count.multiply_adds),
            whole(count.sequential_steps),
            memory(count.held_fused)
        );
    }
    let CountConfig { batch, length, d_model, num_heads, d_ff, .. } = *config;
    let head_dim = config.head_dim.unwrap_or(d_model / num_heads);
    let (keys, state) = (config.keys.unwrap_or(length), config.hidden_size.unwrap_or(d_model));
    let _ = writeln!(
        out,
        "\nLetters: B sequences ({batch}), n tokens ({length}), m keys ({keys}), d width ({d_model}),\nh heads ({num_heads}) \
         of width k ({head_dim}), f inner width ({d_ff}), g gates, s state ({state})."
    );
    out
}
