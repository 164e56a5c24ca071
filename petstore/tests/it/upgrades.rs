//! From one release to the next: processes of two releases side by side.

mod rolling;
mod skew;
