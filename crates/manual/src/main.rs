//! Writes the manual pages and shell completions of the `chumoku` command into a folder. They are generated from the
//! definition of its flags.
//!
//! ```text
//! manual FOLDER      # writes FOLDER/man/*.1 and FOLDER/completions/*
//! ```

use clap_complete::{Shell, generate_to};
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("error: expected an output folder: manual FOLDER");
        return ExitCode::from(2);
    };
    match write(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: writing to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let command = chumoku_cli::definition();
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
        generate_to(shell, &mut command.clone(), "chumoku", &completions)?;
    }
    // One page for the command, and one for each visible subcommand.
    clap_mangen::generate_to(command, &pages)
}
