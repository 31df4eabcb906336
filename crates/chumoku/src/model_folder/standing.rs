//! What stands under a name.

use crate::tr;
use std::path::Path;

/// What stands under a name. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Nothing,
    File,
    Folder,
    Link,
    Other,
}

impl Standing {
    pub(crate) fn of(path: &Path) -> Standing {
        match path.symlink_metadata() {
            Err(_) => Standing::Nothing,
            Ok(there) if there.is_symlink() => Standing::Link,
            Ok(there) if there.is_dir() => Standing::Folder,
            Ok(there) if there.is_file() => Standing::File,
            Ok(_) => Standing::Other,
        }
    }

    pub(super) fn noun(self) -> String {
        match self {
            Standing::Nothing => tr!("nothing", "何もありません"),
            Standing::File => tr!("a file", "ファイル"),
            Standing::Folder => tr!("a folder", "フォルダ"),
            Standing::Link => tr!("a symbolic link", "シンボリックリンク"),
            Standing::Other => tr!("a pipe, socket or device", "パイプ・ソケット・デバイスのいずれか"),
        }
    }
}
