//! Orders for pets (docs/contract.md, 2.5).

use std::fmt;

use petstore_clock::{Timestamp, UnixMillis};
use petstore_proto::v1::ErrorReason;

use crate::{
    errors::PetStoreError,
    pets::PetId,
    violations::{Violation, Violations},
};

/// Identifier of an order: positive, assigned in ascending order, never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub i64);

impl OrderId {
    /// Returns the error for an order that does not exist.
    pub(crate) fn not_found(self) -> PetStoreError {
        PetStoreError::NotFound { code: ErrorReason::OrderNotFound.code(), id_field: "orderId", id: self.0 }
    }
}

/// An order for a pet. It never changes the pet's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Identifier, assigned by the store.
    pub id: OrderId,
    /// Identifier of the ordered pet.
    pub pet_id: PetId,
    /// Number of pets ordered.
    pub quantity: Quantity,
    /// Requested ship date, if any: from 1970 to 9999, so that every client can write it as RFC 3339.
    pub ship_date: Option<UnixMillis>,
    /// Progress of the order.
    pub status: OrderStatus,
}

/// An order to place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// Identifier of the pet. The store checks that it exists.
    pub pet_id: PetId,
    /// Number of pets ordered.
    pub quantity: Quantity,
    /// Requested ship date, if any: from 1970 to 9999, so that every client can write it as RFC 3339.
    pub ship_date: Option<UnixMillis>,
}

impl NewOrder {
    /// Parses every member, and reports all violations together.
    ///
    /// # Errors
    ///
    /// If a member is invalid: [`PetStoreError::Invalid`] with every violation.
    pub fn parse(pet_id: i64, quantity: i32, ship_date: Option<Timestamp>) -> Result<Self, PetStoreError> {
        let mut violations = Violations::default();
        let is_pet = Violation::check(pet_id > 0, "petId", "must be the id of a pet");
        let pet_id = violations.gather(is_pet.map(|()| PetId(pet_id)));
        let quantity = violations.gather(Quantity::parse(quantity));
        let ship_date = violations.gather(ship_date.map(parse_ship_date).transpose());
        match (pet_id, quantity, ship_date) {
            (Some(pet_id), Some(quantity), Some(ship_date)) => Ok(Self { pet_id, quantity, ship_date }),
            _ => Err(PetStoreError::Invalid(violations)),
        }
    }
}

fn parse_ship_date(raw: Timestamp) -> Result<UnixMillis, Violation> {
    UnixMillis::from_timestamp(raw).ok_or(Violation::new("shipDate", "must be a time between 1970 and 9999"))
}

/// Number of pets ordered, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity(i32);

impl Quantity {
    /// Parses a quantity.
    ///
    /// # Errors
    ///
    /// If it is less than 1.
    pub fn parse(raw: i32) -> Result<Self, Violation> {
        if raw >= 1 { Ok(Self(raw)) } else { Err(Violation::new("quantity", "must be at least 1")) }
    }

    /// Returns the number.
    pub(crate) const fn get(self) -> i32 {
        self.0
    }
}

/// Progress of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum OrderStatus {
    /// The order was placed.
    Placed = 1,
    /// The order was approved.
    Approved = 2,
    /// The order was delivered.
    Delivered = 3,
}

impl OrderStatus {
    /// Every status, in the order of an order's life.
    pub const ALL: [Self; 3] = [Self::Placed, Self::Approved, Self::Delivered];

    /// Violation for an invalid status.
    pub const UNKNOWN: Violation = Violation::new("status", "must be one of placed, approved, delivered");

    /// Returns the status that an order must have before it can enter this one. An order begins as placed.
    pub(crate) const fn predecessor(self) -> Option<Self> {
        match self {
            Self::Placed => None,
            Self::Approved => Some(Self::Placed),
            Self::Delivered => Some(Self::Approved),
        }
    }

    /// Returns `true` if the status is final.
    pub(crate) const fn is_complete(self) -> bool {
        matches!(self, Self::Delivered)
    }

    /// Returns the number that stands for the status in the store.
    pub(crate) const fn number(self) -> i16 {
        self as i16
    }

    /// Returns the status that the number stands for.
    pub(crate) fn from_number(number: impl Into<i64>) -> Option<Self> {
        let number = number.into();
        Self::ALL.into_iter().find(|status| i64::from(status.number()) == number)
    }
}

/// Writes the status as in JSON: `placed`, `approved` or `delivered`.
impl fmt::Display for OrderStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Placed => "placed",
            Self::Approved => "approved",
            Self::Delivered => "delivered",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_names_every_faulty_member() {
        let refusal = NewOrder::parse(0, 0, Some(Timestamp { seconds: -1, nanos: 0 })).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "petId must be the id of a pet; quantity must be at least 1; \
             shipDate must be a time between 1970 and 9999"
        );
    }

    #[test]
    fn an_order_advances_in_one_direction() {
        let ways = OrderStatus::ALL.map(OrderStatus::predecessor);
        assert_eq!(ways, [None, Some(OrderStatus::Placed), Some(OrderStatus::Approved)]);
        assert_eq!(OrderStatus::ALL.map(OrderStatus::is_complete), [false, false, true]);
    }

    #[test]
    fn the_stored_numbers_never_change() {
        assert_eq!(OrderStatus::ALL.map(OrderStatus::number), [1, 2, 3]);
        for status in OrderStatus::ALL {
            assert_eq!(OrderStatus::from_number(status.number()), Some(status));
        }
        assert_eq!((OrderStatus::from_number(0), OrderStatus::from_number(4)), (None, None));
    }
}
