//! Header fields that a message may have once.

use http::{HeaderMap, HeaderValue, header::AsHeaderName};

/// Header field that a message has more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated;

/// Returns the only header field of this name, or `None` if there is none.
///
/// # Errors
///
/// [`Repeated`] if there are several.
pub fn only_field(headers: &HeaderMap, name: impl AsHeaderName) -> Result<Option<&HeaderValue>, Repeated> {
    let mut fields = headers.get_all(name).into_iter();
    let field = fields.next();
    if fields.next().is_none() { Ok(field) } else { Err(Repeated) }
}
