//! Output files. Every file is opened for writing here, and no output replaces an input.
//!
//! [`AtomicOutput`] opens a file that the user names. It takes the list of all inputs ([`InputFiles`]) and refuses to
//! replace any of them. [`InputFiles::opened_as_stdout`] returns the input that the shell has opened as standard
//! output.
//!
//! [`create_new`], [`open_existing_or_new`], [`rename`], [`remove_file`] and [`remove_folder`] are for files that the
//! program creates in a folder of its own. [`WorkFolder`] is a temporary folder of that kind. All of these retry for a
//! moment while other programs have a file open, because Windows neither replaces nor removes such files. `clippy.toml`
//! rejects other ways of opening files.
//!
//! # Files
//!
//! - `atomic`: output files that appear complete or not at all
//! - `inputs`: input files of a program
//! - `work_files`: files and work folders of the program

mod atomic;
mod inputs;
mod work_files;

pub use atomic::{AtomicOutput, check_folder_writable};
pub use inputs::InputFiles;
pub use work_files::{WorkFolder, create_new, open_existing_or_new, remove_file, remove_folder, rename};
