//! URLs that may hold a password: its allowed sources, and errors that never repeat it.

use std::{ffi::OsStr, fmt::Display, marker::PhantomData, path::Path, str::FromStr};

use clap::{Arg, Command, builder::TypedValueParser, error::ErrorKind, parser::ValueSource};

use super::{InvalidSetting, files};

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
    let written = files::secret_file(path)?;
    let urls = written.lines().map(str::trim).filter(|line| !line.is_empty());
    let urls: Vec<T> = urls
        .map(str::parse)
        .collect::<Result<_, T::Err>>()
        .map_err(|error| format!("in {}: {error}", path.display()))?;
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use clap::Parser;

    use super::*;

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
    fn a_file_must_be_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        fs::write(&file, "redis://a\n\n redis://b \n").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o620] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let refusal = read::<Url>(&file).unwrap_err();
            assert!(refusal.contains("0600"), "{refusal}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read::<Url>(&file).unwrap(), [Url("redis://a".into()), Url("redis://b".into())]);
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

    #[test]
    fn a_missing_file_is_named() {
        let refusal = read::<Url>(Path::new("/nonexistent/url")).unwrap_err();
        assert_eq!(refusal, "cannot read /nonexistent/url: no such file or directory");
    }
}
