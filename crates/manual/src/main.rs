//! Writes the manual pages and shell completions of the `chumoku` command into a folder. They are generated from the
//! definition of its flags.
//!
//! ```text
//! manual FOLDER       # writes FOLDER/man/*.1 and FOLDER/completions/*
//! manual FOLDER ja    # the same with descriptions in Japanese
//! ```

use clap_complete::{Shell, generate_to};
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

fn main() -> ExitCode {
    let (folder, lang) = (std::env::args_os().nth(1), std::env::args_os().nth(2));
    let command = match lang.as_ref().map(|lang| lang.to_str()) {
        None | Some(Some("en")) => chumoku_cli::definition(),
        Some(Some("ja")) => chumoku_cli::definition_in_japanese(),
        Some(_) => {
            eprintln!("error: expected en or ja as the language: manual FOLDER LANG");
            return ExitCode::from(2);
        }
    };
    let Some(folder) = folder else {
        eprintln!("error: expected an output folder: manual FOLDER");
        return ExitCode::from(2);
    };
    match write(Path::new(&folder), command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: writing to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path, command: clap::Command) -> io::Result<()> {
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
        generate_to(shell, &mut command.clone(), "chumoku", &completions)?;
    }
    // One page for the command, and one for each visible subcommand.
    clap_mangen::generate_to(command, &pages)
}
