//! Every file that is written is opened here, and none replaces a file that is read.
//!
//! [`AtomicOutput`] opens a file that a user names. It takes the list of everything that the program reads ([`Inputs`]) and
//! refuses to replace any of it.
//!
//! [`create_new`], [`open_existing_or_new`] and [`rename`] are for files of the program's own, inside a folder that it has to
//! itself. [`WorkFolder`] is such a folder for a while. `clippy.toml` refuses other ways to write a file.
//!
//! # Files
//!
//! - `atomic`: files that appear whole or not at all
//! - `inputs`: files that a program reads
//! - `own`: files and work folders of the program

mod atomic;
mod inputs;
mod own;

pub use atomic::{AtomicOutput, check_folder};
pub use inputs::Inputs;
pub use own::{WorkFolder, create_new, open_existing_or_new, rename};
