//! Values as arrays of PostgreSQL.

use sea_orm::{Value, sea_query::ArrayType};

/// Returns the values as an array.
pub(super) fn array_value<T: Into<Value>>(kind: ArrayType, values: impl Iterator<Item = T>) -> Value {
    Value::Array(kind, Some(Box::new(values.map(Into::into).collect())))
}

/// Returns the numbers as a `bigint[]`.
pub(super) fn numbers(numbers: impl Iterator<Item = i64>) -> Value {
    array_value(ArrayType::BigInt, numbers)
}
