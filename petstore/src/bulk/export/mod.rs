//! Export from the core to a file: rows, and the output that they are written to.

mod output;
mod row;

pub(crate) use self::{
    output::{OutputFile, Part},
    row::{append, head},
};
