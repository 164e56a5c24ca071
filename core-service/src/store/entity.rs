//! The tables, as `petstore-migrations` makes them.

pub(super) mod account;
pub(super) mod api_key;
pub(super) mod audit_event;
pub(super) mod ban;
pub(super) mod operator;
pub(super) mod order;
pub(super) mod pet;
pub(super) mod refusal;

/// Table `create_requests`.
pub(super) mod create_request {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "create_requests")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub digest: Vec<u8>,
        pub pet_id: i64,
        pub created_at: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `imports`.
pub(super) mod import {
    use sea_orm::entity::prelude::*;

    use crate::domain::ImportProgress;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "imports")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub import_id: String,
        pub last_line: i64,
        pub created: i64,
        pub updated_at: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}

    impl From<Model> for ImportProgress {
        fn from(row: Model) -> Self {
            Self { last_line: row.last_line, created: row.created }
        }
    }
}

/// Table `installation`: one row.
pub(super) mod installation {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "installation")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i16,
        pub name: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `operator_sessions`.
pub(super) mod operator_session {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "operator_sessions")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub digest: Vec<u8>,
        pub operator_id: i64,
        pub expires_at: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `refusal_counts`.
pub(super) mod refusal_count {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "refusal_counts")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub minute: i64,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cause: i64,
        pub requests: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `revision`: one row.
pub(super) mod revision {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "revision")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i16,
        pub value: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `usage_minutes`.
pub(super) mod usage_minute {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "usage_minutes")]
    pub(crate) struct Model {
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

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `usage_reporters`.
pub(super) mod usage_reporter {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "usage_reporters")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: String,
        pub last_report: i64,
        pub reported_at: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `usage_days`.
pub(super) mod usage_day {
    use sea_orm::entity::prelude::*;

    use crate::domain::{Day, Tally, UsageDay};

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "usage_days")]
    pub(crate) struct Model {
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

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}

    impl From<Model> for UsageDay {
        fn from(row: Model) -> Self {
            let Model { account_id: _, day, succeeded, client_errors, refused, server_errors, get_pet } = row;
            Self { day: Day(day), tally: Tally { succeeded, client_errors, refused, server_errors, get_pet } }
        }
    }
}
