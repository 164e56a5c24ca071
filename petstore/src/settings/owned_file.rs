//! Files that hold a secret: their owner and mode.

use std::{fs::Metadata, os::unix::fs::MetadataExt};

/// Reason why a file must not be trusted with a secret, or for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UntrustedFile {
    /// Others may read or change it, or it is no regular file.
    #[error("must be a file of mode 0600 or stricter")]
    OpenToOthers,
    /// The owner may have put the file there, and can read and change it.
    #[error("belongs to user {owner}, and must belong to the user of this process ({user}) or to root")]
    OfAnother {
        /// User that owns the file.
        owner: u32,
        /// User of this process.
        user: u32,
    },
}

/// Checks a file that is already open, so that it cannot be exchanged. It must be a regular file that only
/// its owner has access to, and its owner must be this process's user, or root, who can read everything
/// anyway.
pub(crate) fn check(metadata: &Metadata) -> Result<(), UntrustedFile> {
    if !metadata.is_file() || metadata.mode() & 0o077 != 0 {
        return Err(UntrustedFile::OpenToOthers);
    }
    check_owner(metadata.uid(), rustix::process::geteuid().as_raw())
}

fn check_owner(owner: u32, user: u32) -> Result<(), UntrustedFile> {
    if owner == user || owner == 0 { Ok(()) } else { Err(UntrustedFile::OfAnother { owner, user }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_user_of_the_process_or_to_root() {
        for (owner, user, is_trusted) in
            [(1_000, 1_000, true), (0, 1_000, true), (0, 0, true), (65_534, 0, false), (1_000, 65_534, false)]
        {
            assert_eq!(check_owner(owner, user).is_ok(), is_trusted, "{owner} {user}");
        }
        let text = check_owner(65_534, 0).unwrap_err().to_string();
        assert_eq!(text, "belongs to user 65534, and must belong to the user of this process (0) or to root");
    }
}
