//! The tables of operators, as the core's migrations create them.

/// Table `audit_events`.
pub(super) mod audit_event {
    use petstore_clock::UnixMillis;
    use petstore_proto::admin::v1::AuditEvent;
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "audit_events")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub created_at: i64,
        pub operator: String,
        pub client_address: String,
        pub certificate: Option<String>,
        pub action: String,
        pub account_id: Option<i64>,
        pub account: Option<String>,
        pub key_id: Option<String>,
        pub target_operator: Option<String>,
        pub before: Option<String>,
        pub after: Option<String>,
    }

    impl ActiveModelBehavior for ActiveModel {}

    impl From<Model> for AuditEvent {
        fn from(row: Model) -> Self {
            Self {
                id: row.id,
                create_time: Some(UnixMillis::stored(row.created_at).to_timestamp()),
                operator: row.operator,
                client_address: row.client_address,
                client_certificate: row.certificate.unwrap_or_default(),
                action: row.action,
                account: row.account.unwrap_or_default(),
                key_id: row.key_id.unwrap_or_default(),
                target_operator: row.target_operator.unwrap_or_default(),
                before_json: row.before.unwrap_or_default(),
                after_json: row.after.unwrap_or_default(),
            }
        }
    }
}

/// Table `operators`.
pub(super) mod operator {
    use petstore_clock::UnixMillis;
    use petstore_core::errors::PetStoreError;
    use sea_orm::{Condition, entity::prelude::*};

    use crate::domain::{Operator, OperatorName, Role};

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "operators")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub name: String,
        pub role: String,
        pub digest: Vec<u8>,
        pub last_four: String,
        pub created_at: i64,
        pub revoked_at: Option<i64>,
        pub last_used_at: Option<i64>,
        pub expires_at: Option<i64>,
    }

    impl ActiveModelBehavior for ActiveModel {}

    /// Returns the condition that an operator's token is neither revoked nor expired.
    pub(crate) fn is_valid(now: UnixMillis) -> Condition {
        let is_unexpired =
            Condition::any().add(Column::ExpiresAt.is_null()).add(Column::ExpiresAt.gt(now.as_i64()));
        Condition::all().add(Column::RevokedAt.is_null()).add(is_unexpired)
    }

    impl TryFrom<Model> for Operator {
        type Error = PetStoreError;

        fn try_from(row: Model) -> Result<Self, Self::Error> {
            let role = Role::ALL.into_iter().find(|role| role.name() == row.role);
            let bug =
                || PetStoreError::Bug(format!("operator {} has the role {}", row.name, row.role).into());
            Ok(Self {
                role: role.ok_or_else(bug)?,
                name: OperatorName::stored(row.name),
                last_four: Some(row.last_four),
                created_at: UnixMillis::stored(row.created_at),
                revoked_at: row.revoked_at.map(UnixMillis::stored),
                last_used_at: row.last_used_at.map(UnixMillis::stored),
                expires_at: row.expires_at.map(UnixMillis::stored),
            })
        }
    }
}

/// Table `operator_sessions`.
pub(super) mod operator_session {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "operator_sessions")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub digest: Vec<u8>,
        pub operator_id: i64,
        /// Time at which it ends unless it is used.
        pub expires_at: i64,
        pub opened_at: Option<i64>,
        pub client_address: Option<String>,
    }

    impl ActiveModelBehavior for ActiveModel {}
}
