//! Table `audit_events`.

use sea_orm::entity::prelude::*;

use super::account::stored_moment;
use crate::domain::{AccountName, AuditEvent, OperatorName};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit_events")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub created_at: i64,
    pub operator: String,
    pub client_address: String,
    pub action: String,
    pub account_id: Option<i64>,
    pub account: Option<String>,
    pub key_id: Option<String>,
    pub target_operator: Option<String>,
    pub before: Option<String>,
    pub after: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for AuditEvent {
    fn from(row: Model) -> Self {
        Self {
            id: row.id,
            created_at: stored_moment(row.created_at),
            operator: OperatorName::stored(row.operator),
            client_address: row.client_address,
            action: row.action,
            account: row.account.map(AccountName::stored),
            key_id: row.key_id,
            target_operator: row.target_operator.map(OperatorName::stored),
            before: row.before,
            after: row.after,
        }
    }
}
