//! The program `chumoku`: a wrapper of the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: chumoku::Allocator = chumoku::Allocator;

fn main() -> ExitCode {
    let code = chumoku_cli::run(std::env::args_os().collect()).number();
    chumoku::failpoint::hit("exit");
    ExitCode::from(code)
}
