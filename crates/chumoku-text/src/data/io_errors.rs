//! Classes of system errors.

use std::io::ErrorKind;

/// Returns whether the error means that there is no disk space.
#[must_use]
pub fn is_disk_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Returns whether the error means that the path cannot be written to, rather than that writing failed.
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
