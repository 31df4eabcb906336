//! Every file that is written is opened here, and none replaces a file that is read.
//!
//! [`AtomicOutput`] opens a file that a user names. It takes the list of everything that the program reads ([`Inputs`]) and
//! refuses to replace any of it. [`Inputs::at_standard_output`] tells whether a shell has opened one of them as the output.
//!
//! [`create_new`], [`open_existing_or_new`], [`rename`], [`remove_file`] and [`remove_folder`] are for files of the program's
//! own, inside a folder that it has to itself. [`WorkFolder`] is such a folder for a while. All of them wait for programs that
//! have a file open for a moment, which Windows neither replaces nor removes. `clippy.toml` refuses other ways.
//!
//! # Files
//!
//! - `atomic`: files that appear whole or not at all
//! - `inputs`: files that a program reads
//! - `own`: files and work folders of the program

mod atomic;
mod inputs;
mod work_files;

pub use atomic::{AtomicOutput, check_folder_writable};
pub use inputs::InputFiles;
pub use work_files::{WorkFolder, create_new, open_existing_or_new, remove_file, remove_folder, rename};
