//! The flags of `serve`.

use super::values::{parse_at_least_one, parse_duration, parse_from_zero, parse_up_to_1024};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// A line a request
    Text,
    /// A JSON object a line
    Json,
    /// No requests, events alone
    Off,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// Model folders of any kind; each is called by its folder's name, or NAME=FOLDER
    #[arg(value_name = "MODEL", required = true)]
    pub(crate) models: Vec<PathBuf>,
    /// Where to listen; beyond this machine a key is needed (the environment's CHUMOKU_API_KEY)
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 3000)]
    pub(crate) port: u16,
    /// Serve other machines without a key
    #[arg(long)]
    pub(crate) no_key: bool,
    /// The log on standard error; texts are never in it
    #[arg(long, value_enum, default_value = "text", value_name = "FORM")]
    pub(crate) log: LogFormatArg,
    /// Bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value_t = 2_000_000, value_parser = parse_at_least_one)]
    pub(crate) max_body: usize,
    /// Texts of a request
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = parse_at_least_one)]
    pub(crate) max_texts: usize,
    /// Characters of a text
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = parse_at_least_one)]
    pub(crate) max_chars: usize,
    /// Tokens that a request may have written
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_at_least_one)]
    pub(crate) max_new_tokens: usize,
    /// Bytes of an answer
    #[arg(long, value_name = "BYTES", default_value_t = 64_000_000, value_parser = parse_at_least_one)]
    pub(crate) max_answer: usize,
    /// Bytes that requests hold while they are read, and answers while they are sent, together; more are refused (429)
    #[arg(long, value_name = "BYTES", default_value_t = 512_000_000, value_parser = parse_at_least_one)]
    pub(crate) max_held: usize,
    /// Billions of multiply-adds that an explanation may need; `chumoku count` tells those of a pass
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse_at_least_one)]
    pub(crate) max_explain: usize,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_at_least_one)]
    pub(crate) max_connections: usize,
    /// Requests that may wait for a model, and as many for explanations; more are refused (429)
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = parse_at_least_one)]
    pub(crate) queue: usize,
    /// Texts that are computed together
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_at_least_one)]
    pub(crate) batch_texts: usize,
    /// Milliseconds that a batch waits for requests that are being read
    #[arg(long, value_name = "MS", default_value_t = 2, value_parser = parse_from_zero::<u64>)]
    pub(crate) gather: u64,
    /// How long a client may take to send a request's head or body, or to take what comes next of an answer: 10s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) read_timeout: Duration,
    /// How long a request may wait for its model
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) wait_timeout: Duration,
    /// How long the answer to a request may be computed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) compute_timeout: Duration,
    /// How long the last requests get when the service is told to end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) drain_timeout: Duration,
    /// Threads (default: the physical cores this process may use)
    #[arg(long, value_name = "N", value_parser = parse_up_to_1024)]
    pub(crate) threads: Option<usize>,
}
