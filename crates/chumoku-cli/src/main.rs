//! The program `chumoku`: see the library beside it.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: chumoku::Allocator = chumoku::Allocator;

fn main() -> ExitCode {
    let code = chumoku_cli::run(std::env::args_os().collect()).number();
    chumoku::failpoint::hit("exit");
    ExitCode::from(code)
}
