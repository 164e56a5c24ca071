//! Files that settings name.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use petstore_api_key::ServiceToken;
use petstore_gateway::tls;

use super::{InvalidSetting, owned_file};
use crate::os_error;

/// Upper bound of a secret, in bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// Returns the text of a file that only its owner has access to.
///
/// # Errors
///
/// If the file cannot be used. The text says why, without anything of the file's content.
pub(crate) fn secret(path: &Path) -> Result<String, String> {
    let unreadable = |error: io::Error| unreadable(path, &error);
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?; // of the open file, so that it cannot be exchanged
    owned_file::check(&metadata).map_err(|error| format!("{} {error}", path.display()))?;
    let mut written = String::new();
    file.take(MAX_SECRET_BYTES).read_to_string(&mut written).map_err(unreadable)?;
    Ok(written)
}

/// Returns the certificates in a PEM file.
pub(super) fn certificates(setting: &'static str, path: &Path) -> Result<Vec<u8>, InvalidSetting> {
    let file = pem(setting, path)?;
    match tls::certificates(&file) {
        Ok(_) => Ok(file),
        Err(error) => Err(InvalidSetting::new(setting, format!("{} {error}", path.display()))),
    }
}

/// Returns a certificate and its private key, each with the setting that names its file.
pub(super) fn certified_key(
    (certificate_setting, certificate_path): (&'static str, &Path),
    (key_setting, key_path): (&'static str, &Path),
) -> Result<(Vec<u8>, Vec<u8>), InvalidSetting> {
    let (certificate, key) = (pem(certificate_setting, certificate_path)?, pem(key_setting, key_path)?);
    match tls::certified_key(&certificate, &key) {
        Ok(_) => Ok((certificate, key)),
        Err(error) => {
            let (setting, path) = if error.is_in_key_file() {
                (key_setting, key_path)
            } else {
                (certificate_setting, certificate_path)
            };
            Err(InvalidSetting::new(setting, format!("{} {error}", path.display())))
        }
    }
}

/// Returns the bytes of a PEM file. Its mode is not checked, because orchestrators mount keys in various
/// modes.
fn pem(setting: &'static str, path: &Path) -> Result<Vec<u8>, InvalidSetting> {
    fs::read(path).map_err(|error| InvalidSetting::new(setting, unreadable(path, &error)))
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {}", path.display(), os_error::reason(error))
}

/// Settings of the token between gateways and cores.
#[derive(Clone, Debug, clap::Args)]
pub struct TokenSettings {
    /// A file with the token that gateways present to the core: 32 to 512 characters, mode 0600
    #[arg(long, env = "PETSTORE_SERVICE_TOKEN_FILE", value_name = "FILE")]
    pub service_token_file: Option<PathBuf>,
}

impl TokenSettings {
    /// Returns the token, if one is set.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is open to others or holds no token.
    pub fn token(&self) -> Result<Option<ServiceToken>, InvalidSetting> {
        let read = |file: &Path| {
            ServiceToken::parse(secret(file)?.trim())
                .map_err(|error| format!("in {}: {error}", file.display()))
        };
        let token = self.service_token_file.as_deref().map(read).transpose();
        token.map_err(|reason| InvalidSetting::new("--service-token-file", reason))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_token_is_read_from_a_file_that_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let settings = TokenSettings { service_token_file: Some(file.clone()) };
        let missing = settings.token().unwrap_err().to_string();
        assert!(missing.starts_with("--service-token-file: cannot read "), "{missing}");

        fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
        for mode in [0o644, 0o640, 0o604] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let refusal = settings.token().unwrap_err().to_string();
            assert!(refusal.contains("mode 0600"), "{refusal}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(settings.token().unwrap().unwrap().is(b"0123456789abcdef0123456789abcdef"));

        fs::write(&file, "too short").unwrap();
        let refusal = settings.token().unwrap_err().to_string();
        assert!(refusal.contains("32 to 512") && !refusal.contains("too short"), "{refusal}");
        assert!(TokenSettings { service_token_file: None }.token().unwrap().is_none());
    }
}
