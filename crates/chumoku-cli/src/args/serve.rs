//! Flags of `chumoku serve`.

use super::values::{parse_at_least_one, parse_duration, parse_from_zero, parse_up_to_1024};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// One line per request
    Text,
    /// One JSON object per line
    Json,
    /// Events only, no requests
    Off,
}

same_values!(LogFormatArg, chumoku_server::LogFormat: Text, Json, Off);

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// Model folders; each model is named after its folder, or by NAME=FOLDER
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) models: Vec<PathBuf>,
    /// Address to listen on; other machines need the key in CHUMOKU_API_KEY
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port to listen on; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 3000)]
    pub(crate) port: u16,
    /// Let other machines send requests without a key
    #[arg(long)]
    pub(crate) no_key: bool,
    /// Format of the log on standard error; the log never contains texts
    #[arg(long, value_enum, default_value = "text", value_name = "FORM")]
    pub(crate) log: LogFormatArg,
    /// Maximum size of a request body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2_000_000, value_parser = parse_at_least_one)]
    pub(crate) max_body: usize,
    /// Maximum number of texts per request
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = parse_at_least_one)]
    pub(crate) max_texts: usize,
    /// Maximum number of characters per text
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = parse_at_least_one)]
    pub(crate) max_chars: usize,
    /// Maximum number of tokens that a request may generate
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_at_least_one)]
    pub(crate) max_new_tokens: usize,
    /// Maximum size of an answer, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64_000_000, value_parser = parse_at_least_one)]
    pub(crate) max_answer: usize,
    /// Maximum size of all requests being read and answers being sent, in bytes; beyond it, requests get status 429
    #[arg(long, value_name = "BYTES", default_value_t = 512_000_000, value_parser = parse_at_least_one)]
    pub(crate) max_held: usize,
    /// Maximum cost of an explanation, in billions of multiply-adds; `chumoku count` shows the cost of one pass
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse_at_least_one)]
    pub(crate) max_explain: usize,
    /// Maximum number of open connections
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_at_least_one)]
    pub(crate) max_connections: usize,
    /// Maximum number of requests that wait for a model, and of waiting explanations; beyond it, requests get status
    /// 429
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = parse_at_least_one)]
    pub(crate) queue: usize,
    /// Maximum number of texts in a batch
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_at_least_one)]
    pub(crate) batch_texts: usize,
    /// Time that a batch waits for requests that are still being read, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2, value_parser = parse_from_zero::<u64>)]
    pub(crate) gather: u64,
    /// Maximum time for a client to send a request's head or body, or to take the next bytes of an answer, such as 10s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) read_timeout: Duration,
    /// Maximum time that a request waits for its model
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) wait_timeout: Duration,
    /// Maximum time to compute an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) compute_timeout: Duration,
    /// Maximum time for open requests to finish at shutdown
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) drain_timeout: Duration,
    /// Number of threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}
