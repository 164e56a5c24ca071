//! From a file to the core: input, records, chunks, delivery.

mod chunks;
mod csv;
mod delivery;
mod input;
mod records;

pub(crate) use self::{
    chunks::Chunks,
    delivery::{Delivery, Rejected, SEGMENT},
    input::Input,
    records::Records,
};
