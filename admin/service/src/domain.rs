//! Operators and the events of their audit log, with the rules for them.

mod audit;
mod operator;
mod page_tokens;

pub(crate) use audit::*;
pub use operator::*;
pub(crate) use page_tokens::PageTokens;
#[cfg(feature = "fuzzing")]
pub use page_tokens::fuzz_page_token;
