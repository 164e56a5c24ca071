//! Files that settings name, and URLs that may hold a password: their allowed sources, and errors that never
//! repeat them.

use std::{
    env,
    ffi::OsStr,
    fmt::Display,
    fs::{Metadata, OpenOptions},
    io::{self, Read as _},
    marker::PhantomData,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{Arg, Command, builder::TypedValueParser, error::ErrorKind, parser::ValueSource};
use petstore_caller::api_key::ServiceToken;
use petstore_command_line::output::reason;
use petstore_database::DatabaseUrl;
use petstore_http_server::{Certificate, tls};
use rustix::{fs::OFlags, process::geteuid};

use super::InvalidSetting;

/// Upper bound of a file, in bytes. The largest are lists of authorities.
const MAX_BYTES: u64 = 1024 * 1024;

/// Returns the content of a file that a setting names, and what the system says about the file. Only a
/// regular file of bounded size is read: nobody may ever write to a FIFO, and a device may never end.
///
/// # Errors
///
/// If the file cannot be used. The text says why, without anything of the file's content.
pub fn settings_file(path: &Path) -> Result<(Vec<u8>, Metadata), String> {
    if path.as_os_str().to_string_lossy().contains("://") {
        return Err("must be the name of a file, not a URL".to_owned()); // which may hold a password
    }
    let unreadable = |error: io::Error| format!("cannot read {}: {}", path.display(), reason(&error));
    // Opening a FIFO would otherwise wait for somebody who writes to it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?; // of the open file, so that it cannot be exchanged
    let mut content = Vec::new();
    if metadata.is_file() {
        file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    }
    let holds = metadata.is_file() && content.len() as u64 <= MAX_BYTES;
    content.drain(..if content.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }); // a byte order mark
    let rule = || format!("{} must be a regular file of at most 1 MiB", path.display());
    holds.then_some((content, metadata)).ok_or_else(rule)
}

/// Returns the text of a file that only its owner has access to: lines without other control characters.
///
/// # Errors
///
/// If the file cannot be used. The text says why, without anything of the file's content.
pub fn secret_file(path: &Path) -> Result<String, String> {
    let (content, metadata) = settings_file(path)?;
    let named = |reason: String| format!("{} {reason}", path.display());
    // systemd gives a unit's user the right to read a credential by an ACL, which shows as its group's.
    let of_systemd = env::var_os("CREDENTIALS_DIRECTORY");
    let is_credential = of_systemd.is_some_and(|folder| path.parent() == Some(Path::new(&folder)));
    let mode = if is_credential { metadata.mode() & !0o040 } else { metadata.mode() };
    check_access(mode, (metadata.uid(), geteuid().as_raw())).map_err(named)?;
    match String::from_utf8(content) {
        Ok(text) if !text.trim().lines().any(|line| line.trim().contains(char::is_control)) => Ok(text),
        Ok(_) | Err(_) => Err(named("must be text in UTF-8 without control characters".to_owned())),
    }
}

/// Checks that only the owner of a secret's file has access to it, and that the owner is this process's user,
/// or root, who can read everything anyway.
fn check_access(mode: u32, (owner, user): (u32, u32)) -> Result<(), String> {
    if mode & 0o077 != 0 {
        return Err("must be a file of mode 0600 or stricter".to_owned());
    }
    if owner == user || owner == 0 {
        return Ok(());
    }
    Err(format!("belongs to user {owner}, and must belong to the user of this process ({user}) or to root"))
}

/// Returns the certificates of authorities in a PEM file.
pub(super) fn authorities(setting: &'static str, path: &Path) -> Result<Vec<u8>, InvalidSetting> {
    let file = pem(setting, path)?;
    let checked = tls::authorities(&file).map(|_| file);
    checked.map_err(|error| InvalidSetting::new(setting, format!("{} {error}", path.display())))
}

/// Checks the files that a setting's URL of a database names, which the driver reads by itself.
pub(super) fn check_tls_files(setting: &'static str, url: &DatabaseUrl) -> Result<(), InvalidSetting> {
    let [authorities, certificate, key] = url.tls_files();
    if let Some(file) = authorities {
        self::authorities(setting, &file)?;
    }
    if let (Some(certificate), Some(key)) = (certificate, key) {
        certified_key((setting, &certificate), (setting, &key))?; // the driver refuses one alone
    }
    Ok(())
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

/// Returns the certificate of an HTTPS port, if both of its files are set.
pub(super) fn https_certificate(
    (certificate_setting, certificate_path): (&'static str, Option<&Path>),
    (key_setting, key_path): (&'static str, Option<&Path>),
) -> Result<Option<Certificate>, InvalidSetting> {
    let (Some(certificate), Some(key)) = (certificate_path, key_path) else { return Ok(None) };
    let (chain, key) = certified_key((certificate_setting, certificate), (key_setting, key))?;
    let parsed = Certificate::parse(&chain, &key);
    parsed.map(Some).map_err(|error| InvalidSetting::new(certificate_setting, error.to_string()))
}

/// Returns the bytes of a PEM file. Its mode is not checked, because orchestrators mount keys in various
/// modes.
fn pem(setting: &'static str, path: &Path) -> Result<Vec<u8>, InvalidSetting> {
    let read = settings_file(path).map(|(content, _)| content);
    read.map_err(|reason| InvalidSetting::new(setting, reason))
}

/// Parser of a URL. Its errors never repeat the URL, and it refuses a password on the command line, where
/// every user of the machine can read it. The URL's own errors must not repeat it, either.
#[derive(Clone, Copy, Debug)]
pub struct SecretUrl<T>(PhantomData<fn() -> T>);

impl<T> Default for SecretUrl<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> TypedValueParser for SecretUrl<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<T, clap::Error> {
        let flag = arg.and_then(Arg::get_long);
        let name = flag.map_or_else(|| "BASE_URL".to_owned(), |flag| format!("--{flag}"));
        let refused =
            |reason: String| clap::Error::raw(ErrorKind::ValueValidation, format!("{name}: {reason}\n"));
        let written = value.to_str().ok_or_else(|| refused("must be UTF-8".to_owned()))?;
        let file = format!("{name}-file");
        let has_file = command.get_arguments().any(|other| other.get_long() == file.get(2..));
        if has_file && source == ValueSource::CommandLine && carries_password(written) {
            let variable = arg.and_then(Arg::get_env).unwrap_or_default().display();
            return Err(refused(format!("a URL with a password must come from {variable} or {file}")));
        }
        written.parse().map_err(|error: T::Err| refused(error.to_string()))
    }
}

/// Returns the URLs of a setting, from its file if one is given.
pub(super) fn urls<T: FromStr<Err: Display> + Clone>(
    given: &[T],
    (file_flag, file): (&'static str, Option<&Path>),
) -> Result<Vec<T>, InvalidSetting> {
    let Some(file) = file else { return Ok(given.to_vec()) };
    read(file).map_err(|reason| InvalidSetting::new(file_flag, reason))
}

/// Returns the URLs, one a line, in a file that only its owner has access to.
///
/// # Errors
///
/// If the file cannot be used. The text says why, without anything of the file's content.
fn read<T: FromStr<Err: Display>>(path: &Path) -> Result<Vec<T>, String> {
    let written = secret_file(path)?;
    let urls = written.lines().map(str::trim).filter(|line| !line.is_empty());
    let urls = urls.map(str::parse).collect::<Result<Vec<T>, T::Err>>();
    let urls = urls.map_err(|error| format!("in {}: {error}", path.display()))?;
    if urls.is_empty() { Err(format!("{} must hold a URL", path.display())) } else { Ok(urls) }
}

/// Returns `true` if a URL names a password, before the host or as a parameter. In doubt, it does.
fn carries_password(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    if scheme.eq_ignore_ascii_case("sqlite") {
        return false; // it is a path
    }
    let user_info = rest.rsplit_once('@').map_or("", |(user_info, _)| user_info);
    let rest = rest.to_ascii_lowercase();
    user_info.contains(':') || ["pass=", "password="].iter().any(|parameter| rest.contains(parameter))
}

/// Settings of the token between gateways and cores.
#[derive(Clone, Debug, clap::Args)]
pub struct TokenSettings {
    /// File with the token that gateways present to the core: 32 to 512 characters, mode 0600. A second line
    /// may hold another token that the core accepts, so that tokens can be replaced without an outage
    #[arg(long, env = "PETSTORE_SERVICE_TOKEN_FILE", value_name = "FILE")]
    pub service_token_file: Option<PathBuf>,
}

impl TokenSettings {
    /// Returns the tokens, if a file is set: the first is sent, and all are accepted.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is open to others or does not hold one or two tokens.
    pub fn tokens(&self) -> Result<Option<Vec<ServiceToken>>, InvalidSetting> {
        let tokens = self.service_token_file.as_deref().map(service_tokens).transpose();
        tokens.map_err(|reason| InvalidSetting::new("--service-token-file", reason))
    }
}

/// Returns the tokens in a file, one in each line.
fn service_tokens(file: &Path) -> Result<Vec<ServiceToken>, String> {
    let written = secret_file(file)?;
    let invalid = |reason: &str| format!("in {}: {reason}", file.display());
    let lines = written.trim().lines().map(str::trim).filter(|line| !line.is_empty());
    let tokens = lines.map(ServiceToken::parse).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    match tokens.len() {
        1 | 2 => Ok(tokens),
        0 => Err(invalid("there is no service token")),
        _ => Err(invalid("there are more than two service tokens")),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use clap::Parser;

    use super::*;

    #[test]
    fn one_or_two_tokens_are_read_from_a_file_that_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let settings = TokenSettings { service_token_file: Some(file.clone()) };
        let missing = settings.tokens().unwrap_err().to_string();
        assert!(missing.starts_with("--service-token-file: cannot read "), "{missing}");

        fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
        for mode in [0o644, 0o640, 0o604] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let refusal = settings.tokens().unwrap_err().to_string();
            assert!(refusal.contains("mode 0600"), "{refusal}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let exposed = |tokens: Vec<ServiceToken>| -> Vec<_> {
            tokens.iter().map(|token| token.expose().to_owned()).collect()
        };
        let read = settings.tokens().unwrap().map(exposed).unwrap();
        assert_eq!(read, ["0123456789abcdef0123456789abcdef"]);
        fs::write(&file, "\u{feff}0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(settings.tokens().unwrap().map(exposed).unwrap(), read, "with a byte order mark");
        fs::write(&file, "\u{feff}".to_owned() + &" ".repeat(1_048_576)).unwrap();
        assert!(settings_file(&file).unwrap_err().contains("at most 1 MiB"), "none is cut off");
        let (old, new) = ("0".repeat(32), "1".repeat(32));
        fs::write(&file, format!("{new}\r\n\n {old} \n")).unwrap();
        let read = settings.tokens().unwrap().map(exposed).unwrap();
        assert_eq!(read, [new.clone(), old.clone()], "the first is the one to send");

        let three = format!("{old}\n{new}\n{}\n", "2".repeat(32));
        let with_a_short_one = format!("{old}\ntoo short");
        for (written, reason) in [
            ("too short", "32 to 512"),
            (&with_a_short_one, "32 to 512"),
            (&three, "more than two service tokens"),
            ("\n", "there is no service token"),
        ] {
            fs::write(&file, written).unwrap();
            let refusal = settings.tokens().unwrap_err().to_string();
            assert!(refusal.contains(reason) && !refusal.contains("too short"), "{refusal}");
            assert!(!refusal.contains(&old), "{refusal}");
        }
        assert!(TokenSettings { service_token_file: None }.tokens().unwrap().is_none());
    }

    #[test]
    fn a_file_belongs_to_the_user_of_the_process_or_to_root() {
        for (owner, user, is_trusted) in
            [(1_000, 1_000, true), (0, 1_000, true), (0, 0, true), (65_534, 0, false), (1_000, 65_534, false)]
        {
            assert_eq!(check_access(0o100_600, (owner, user)).is_ok(), is_trusted, "{owner} {user}");
        }
        let text = check_access(0o100_400, (65_534, 0)).unwrap_err();
        assert_eq!(text, "belongs to user 65534, and must belong to the user of this process (0) or to root");
    }

    /// URL that accepts any text.
    #[derive(Clone, Debug, PartialEq)]
    struct Url(String);

    impl FromStr for Url {
        type Err = &'static str;

        fn from_str(written: &str) -> Result<Self, Self::Err> {
            if written.contains("://") { Ok(Self(written.to_owned())) } else { Err("must be a URL") }
        }
    }

    #[derive(Debug, Parser)]
    struct Program {
        #[arg(long, value_delimiter = ',', value_parser = SecretUrl::<Url>::default())]
        #[arg(env = "PETSTORE_SOME_URL")]
        some_url: Vec<Url>,
        #[arg(long)]
        some_url_file: Option<String>,
    }

    fn parse(url: &str) -> Result<Vec<Url>, clap::Error> {
        Program::try_parse_from(["program", "--some-url", url]).map(|program| program.some_url)
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for url in [
            "postgres://petstore:SECRET@localhost/petstore",
            "postgres://petstore:SEC/RET@localhost/petstore",
            "postgresql://localhost/petstore?user=petstore&Password=SECRET",
            "rediss://:SECRET@localhost",
            "redis://localhost,redis://user:SECRET@localhost",
            "unix:///run/redis?PASS=SECRET",
        ] {
            let refusal = parse(url).unwrap_err().to_string();
            let expected =
                "--some-url: a URL with a password must come from PETSTORE_SOME_URL or --some-url-file";
            assert!(refusal.contains(expected), "{refusal}");
            assert!(!refusal.contains("SEC"), "{refusal}");
        }
    }

    #[test]
    fn an_invalid_url_is_refused_and_not_repeated() {
        let refusal = parse("SECRET").unwrap_err().to_string();
        assert!(refusal.contains("--some-url: must be a URL") && !refusal.contains("SECRET"), "{refusal}");
    }

    #[test]
    fn a_url_without_a_password_is_accepted() {
        for url in ["redis://localhost:6379/0", "redis://user@localhost", "sqlite://a:b@c.db"] {
            assert_eq!(parse(url).unwrap(), [Url(url.to_owned())]);
        }
    }

    #[test]
    fn an_empty_or_invalid_file_is_refused_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        for content in [" \n", "SECRET"] {
            fs::write(&file, content).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let refusal = read::<Url>(&file).unwrap_err();
            assert!(refusal.contains("url") && !refusal.contains("SECRET"), "{refusal}");
        }
    }
}
