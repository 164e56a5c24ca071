//! The tables of accounts, as `petstore-migrations` creates them.

pub mod account;
pub(super) mod api_key;
pub(super) mod ban;
pub(super) mod refusal;

/// Table `brownouts`.
pub mod brownout {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "brownouts")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub account_id: Option<i64>,
        pub starts_at: i64,
        pub ends_at: i64,
        #[sea_orm(belongs_to, from = "account_id", to = "id")]
        pub account: BelongsTo<Option<super::account::Entity>>,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `usage_days`.
pub mod usage_day {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "usage_days")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: i64,
        #[sea_orm(primary_key, auto_increment = false)]
        pub day: i64,
        pub succeeded: i64,
        pub client_errors: i64,
        pub refused: i64,
        pub server_errors: i64,
        pub get_pet: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `usage_minutes`.
pub mod usage_minute {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "usage_minutes")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: i64,
        #[sea_orm(primary_key, auto_increment = false)]
        pub minute: i64,
        #[sea_orm(primary_key, auto_increment = false)]
        pub key_id: String,
        pub succeeded: i64,
        pub client_errors: i64,
        pub refused: i64,
        pub server_errors: i64,
        pub get_pet: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `usage_reporters`.
pub mod usage_reporter {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "usage_reporters")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub last_report: i64,
        pub reported_at: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `refusal_counts`.
pub mod refusal_count {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "refusal_counts")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub minute: i64,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cause: i64,
        pub requests: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}
