//! Bans of keys that ignore 429, and bans by operators.

mod imposed;
mod lasting;
