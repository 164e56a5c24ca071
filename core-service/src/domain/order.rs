//! Orders for pets (docs/contract.md, 2.5).

use std::fmt;

use petstore_clock::UnixMillis;

use super::{PetId, PetStoreError, Violation, Violations};

/// Identifier of an order: positive, assigned in ascending order, never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub i64);

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
    /// Requested ship date, if any.
    pub ship_date: Option<ShipDate>,
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
    /// Requested ship date, if any.
    pub ship_date: Option<ShipDate>,
}

impl NewOrder {
    /// Parses every member, and reports all violations together. A ship date is given as Unix seconds and
    /// nanoseconds.
    ///
    /// # Errors
    ///
    /// If a member is invalid: [`PetStoreError::Invalid`] with every violation.
    pub fn parse(pet_id: i64, quantity: i32, ship_date: Option<(i64, i32)>) -> Result<Self, PetStoreError> {
        let mut violations = Violations::default();
        let pet_id = violations.gather(ordered_pet(pet_id));
        let quantity = violations.gather(Quantity::parse(quantity));
        let ship_date = ship_date.map(|(secs, nanos)| ShipDate::parse(secs, nanos)).transpose();
        let ship_date = violations.gather(ship_date);
        match (pet_id, quantity, ship_date) {
            (Some(pet_id), Some(quantity), Some(ship_date)) => Ok(Self { pet_id, quantity, ship_date }),
            _ => Err(PetStoreError::Invalid(violations)),
        }
    }
}

fn ordered_pet(raw: i64) -> Result<PetId, Violation> {
    if raw > 0 { Ok(PetId(raw)) } else { Err(Violation::new("petId", "must be the id of a pet")) }
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
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// Ship date of an order: a time from 1970 to 9999, so that every client can write it as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShipDate(UnixMillis);

impl ShipDate {
    /// 9999-12-31T23:59:59.999Z.
    const MAX: UnixMillis = UnixMillis(253_402_300_799_999);

    /// Parses Unix seconds and nanoseconds, truncated to milliseconds.
    ///
    /// # Errors
    ///
    /// If the time is before 1970 or after 9999, or the nanoseconds are not those of one second.
    pub fn parse(secs: i64, nanos: i32) -> Result<Self, Violation> {
        Self::read(secs, nanos).ok_or(Violation::new("shipDate", "must be a moment from 1970 to 9999"))
    }

    fn read(secs: i64, nanos: i32) -> Option<Self> {
        let secs = u64::try_from(secs).ok()?;
        let nanos = u64::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        Self::stored(UnixMillis(secs.checked_mul(1_000)?.checked_add(nanos / 1_000_000)?))
    }

    /// Returns the time.
    #[must_use]
    pub const fn get(self) -> UnixMillis {
        self.0
    }

    /// Returns a date read from the store; `None` if it is out of range.
    pub(crate) fn stored(moment: UnixMillis) -> Option<Self> {
        (moment <= Self::MAX).then_some(Self(moment))
    }
}

/// Progress of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderStatus {
    /// The order was placed.
    Placed,
    /// The order was approved.
    Approved,
    /// The order was delivered.
    Delivered,
}

impl OrderStatus {
    /// Every status, in the order of an order's life.
    pub const ALL: [Self; 3] = [Self::Placed, Self::Approved, Self::Delivered];

    /// Violation for an invalid status.
    pub const UNKNOWN: Violation = Violation::new("status", "must be one of placed, approved, delivered");

    /// Returns the one status that an order must have to enter this one. An order begins as placed.
    #[must_use]
    pub const fn predecessor(self) -> Option<Self> {
        match self {
            Self::Placed => None,
            Self::Approved => Some(Self::Placed),
            Self::Delivered => Some(Self::Approved),
        }
    }

    /// Returns `true` if the status is final.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Delivered)
    }

    /// Returns the number that stands for the status in the store.
    #[must_use]
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Placed => 1,
            Self::Approved => 2,
            Self::Delivered => 3,
        }
    }

    /// Returns the status that the number stands for.
    #[must_use]
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
        let refusal = NewOrder::parse(0, 0, Some((-1, 0))).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "petId must be the id of a pet; quantity must be at least 1; \
             shipDate must be a moment from 1970 to 9999"
        );
    }

    #[test]
    fn a_ship_date_is_kept_to_the_millisecond() {
        let date = |secs, nanos| ShipDate::parse(secs, nanos).ok().map(|date| date.get().0);
        assert_eq!(date(0, 0), Some(0));
        assert_eq!(date(1, 1_999_999), Some(1_001));
        assert_eq!(date(253_402_300_799, 999_999_999), Some(253_402_300_799_999));
        for (secs, nanos) in
            [(-1, 0), (253_402_300_800, 0), (i64::MAX, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000)]
        {
            assert_eq!(date(secs, nanos), None, "{secs} {nanos}");
        }
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
