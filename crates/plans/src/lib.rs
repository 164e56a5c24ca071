//! The plans with fixed limits (docs/contract.md, 6.1). The core enforces them, the documentation shows them.

/// A plan, and how many requests it allows to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPlan {
    /// As an account has it.
    pub name: &'static str,
    /// In a minute.
    pub per_minute: u64,
    /// In a UTC day.
    pub per_day: u64,
}

/// The plan of an account that has no other.
pub const FREE: FixedPlan = FixedPlan { name: "free", per_minute: 60, per_day: 1_000 };
/// The one above.
pub const PRO: FixedPlan = FixedPlan { name: "pro", per_minute: 300, per_day: 10_000 };
/// The largest with fixed limits.
pub const BUSINESS: FixedPlan = FixedPlan { name: "business", per_minute: 1_000, per_day: 100_000 };

/// All of them, the smallest first.
pub const FIXED: [FixedPlan; 3] = [FREE, PRO, BUSINESS];

/// The name of the plan whose limits are agreed with each account.
pub const ENTERPRISE: &str = "enterprise";
