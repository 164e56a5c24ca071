//! Import from a file to the core: input, records, chunks, delivery.

mod chunks;
mod csv;
mod delivery;
mod input;
mod lines;
mod records;

pub(crate) use self::{
    chunks::{Chunks, Rejected},
    delivery::{Delivery, SEGMENT},
    input::Input,
    records::Records,
};
