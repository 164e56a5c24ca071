//! Plans with fixed limits (docs/contract.md, 6.1). The core enforces them, the documentation shows them.

/// Maximum number of requests of an account or of a client address. The limit per day may be the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// Requests per minute; at least 1, below 2⁵³.
    pub per_minute: u64,
    /// Requests per UTC day; at least 1, below 2⁵³.
    pub per_day: u64,
}

/// Plan, and the number of requests that it allows to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPlan {
    /// Name, as an account has it.
    pub name: &'static str,
    /// Limits of an account with it.
    pub quota: Quota,
}

/// Default plan of an account.
pub const FREE: FixedPlan = FixedPlan { name: "free", quota: Quota { per_minute: 60, per_day: 1_000 } };
/// Plan above the free one.
pub const PRO: FixedPlan = FixedPlan { name: "pro", quota: Quota { per_minute: 300, per_day: 10_000 } };
/// Largest plan with fixed limits.
pub const BUSINESS: FixedPlan =
    FixedPlan { name: "business", quota: Quota { per_minute: 1_000, per_day: 100_000 } };

/// All of them, the smallest first.
pub const FIXED: [FixedPlan; 3] = [FREE, PRO, BUSINESS];

/// Name of the plan whose limits are agreed with each account.
pub const ENTERPRISE: &str = "enterprise";
