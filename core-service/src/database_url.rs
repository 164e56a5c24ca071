//! Where the store is.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Where the store is: `sqlite://PATH`, the path absolute (`sqlite:///var/lib/petstore.db`) or relative to the
/// working directory (`sqlite://data/petstore.db`). The path is taken as it is written: nothing is decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(PathBuf);

impl DatabaseUrl {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Why a text is no database URL. Never shows more of it than the scheme: the rest may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// There is no `scheme://`.
    #[error("the database URL must begin with sqlite://")]
    NoScheme,
    /// The scheme is another one.
    #[error("the database URL must begin with sqlite://, and not with {0}://")]
    UnsupportedScheme(String),
    /// The path is empty.
    #[error("the database URL must name a file, as in sqlite://data/petstore.db")]
    NoPath,
    /// The path has a query string.
    #[error("the database URL must not have parameters")]
    HasParameters,
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let (scheme, path) = url.split_once("://").ok_or(DatabaseUrlError::NoScheme)?;
        if scheme != "sqlite" {
            let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
            return Err(if is_scheme && scheme.len() <= 20 {
                DatabaseUrlError::UnsupportedScheme(scheme.to_owned())
            } else {
                DatabaseUrlError::NoScheme // whatever it is, it may be a secret
            });
        }
        match path {
            "" => Err(DatabaseUrlError::NoPath),
            path if path.contains('?') => Err(DatabaseUrlError::HasParameters),
            path => Ok(Self(path.into())),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqlite://{}", self.0.display())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_relative_or_absolute() {
        for url in ["sqlite://data/petstore.db", "sqlite:///var/lib/pet store/50%.db"] {
            let parsed: DatabaseUrl = url.parse().unwrap();
            assert_eq!(parsed.to_string(), url);
            assert_eq!(parsed.path(), Path::new(&url["sqlite://".len()..]));
        }
    }

    #[test]
    fn what_is_no_sqlite_file_is_refused_without_being_shown() {
        let cases = [
            ("postgres://u:secret@h/db", DatabaseUrlError::UnsupportedScheme("postgres".into())),
            ("u:secret@h://db", DatabaseUrlError::NoScheme),
            ("data/petstore.db", DatabaseUrlError::NoScheme),
            ("sqlite://", DatabaseUrlError::NoPath),
            ("sqlite://pets.db?key=secret", DatabaseUrlError::HasParameters),
        ];
        for (url, expected) in cases {
            let refusal = url.parse::<DatabaseUrl>().unwrap_err();
            assert_eq!(refusal, expected, "{url}");
            assert!(!refusal.to_string().contains("secret"), "{refusal}");
        }
    }
}
