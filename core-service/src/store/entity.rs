//! The table that belongs to no area, as `petstore-migrations` creates it.

/// Table `installation`: one row.
pub(super) mod installation {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "installation")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i16,
        pub name: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}
