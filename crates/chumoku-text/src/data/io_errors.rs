//! What the system means when it refuses.

use std::io::ErrorKind;

/// Whether the system says that there is no room.
#[must_use]
pub fn is_disk_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Whether the system says that a place cannot be written to, rather than that writing failed.
#[must_use]
pub fn is_unwritable_path(kind: ErrorKind) -> bool {
    use ErrorKind as K;
    matches!(
        kind,
        K::NotFound
            | K::PermissionDenied
            | K::NotADirectory
            | K::IsADirectory
            | K::DirectoryNotEmpty
            | K::ReadOnlyFilesystem
            | K::InvalidFilename
            | K::InvalidInput
            | K::AlreadyExists
            | K::CrossesDevices
            | K::ExecutableFileBusy
            | K::ResourceBusy
            | K::Unsupported
    )
}
