//! The type of a directory entry.

use crate::tr;
use std::path::Path;

/// The type of a directory entry. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryType {
    /// Nothing is there.
    Missing,
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, which is not followed.
    Link,
    /// A device, a pipe or a socket.
    Other,
}

impl EntryType {
    /// Returns the type of the entry at a path, without following links.
    pub fn at(path: &Path) -> EntryType {
        match path.symlink_metadata() {
            Err(_) => EntryType::Missing,
            Ok(there) if there.is_symlink() => EntryType::Link,
            Ok(there) if there.is_dir() => EntryType::Folder,
            Ok(there) if there.is_file() => EntryType::File,
            Ok(_) => EntryType::Other,
        }
    }

    pub(super) fn noun(self) -> String {
        match self {
            EntryType::Missing => tr!("nothing", "何もありません"),
            EntryType::File => tr!("a file", "ファイル"),
            EntryType::Folder => tr!("a folder", "フォルダ"),
            EntryType::Link => tr!("a symbolic link", "シンボリックリンク"),
            EntryType::Other => tr!("a pipe, socket or device", "パイプ・ソケット・デバイスのいずれか"),
        }
    }
}
