//! Table of methods, with the rules for each, on every transport.

use std::time::Duration;

use petstore_grpc_server::{
    Callers::{Clients, Everyone, Operators},
    Class::{Admin, Batch, Import, Internal, Read, Tool, Write},
    Method, Methods,
};

use super::limits::{BOUNDS, LIMITS};

macro_rules! methods {
    ($(
        $name:ident $path:literal $callers:ident $class:ident $size:ident $timeout:expr;
    )*) => {
        $(pub(crate) static $name: Method = Method {
            path: $path,
            callers: $callers,
            class: $class,
            max_message: LIMITS.$size,
            timeout: $timeout,
        };)*

        /// Every method, and then the remaining methods of the services.
        pub(crate) static METHODS: Methods = Methods { rows: &[$(&$name),*], rest: &UNKNOWN };
    };
}

#[rustfmt::skip]
methods! {
    GET_PET       "petstore.v1.PetStore/GetPet"                   Clients   Read     message      CALL;
    LIST_PETS     "petstore.v1.PetStore/ListPets"                 Clients   Read     message      CALL;
    CREATE_PET    "petstore.v1.PetStore/CreatePet"                Clients   Write    message      CALL;
    CREATE_PETS   "petstore.v1.PetStore/BatchCreatePets"          Clients   Write    bulk_message CALL;
    IMPORT_PETS   "petstore.v1.PetStore/ImportPets"               Clients   Import   bulk_message None;
    GET_ORDER     "petstore.v1.StoreService/GetOrder"             Clients   Read     message      CALL;
    LIST_ORDERS   "petstore.v1.StoreService/ListOrders"           Clients   Read     message      CALL;
    PLACE_ORDER   "petstore.v1.StoreService/PlaceOrder"           Clients   Write    message      CALL;
    ADVANCE_ORDER "petstore.v1.StoreService/AdvanceOrder"         Clients   Write    message      CALL;
    CALL_BATCH    "petstore.internal.v1.BatchService/Call"        Clients   Batch    message      CALL;
    RESOLVE_KEYS  "petstore.internal.v1.KeyService/ResolveKeys"   Clients   Internal message      CALL;
    LIST_CHANGES  "petstore.internal.v1.KeyService/ListChanges"   Clients   Internal message      CALL;
    REPORT_USE    "petstore.internal.v1.KeyService/ReportUse"     Clients   Internal message      CALL;
    REPORT_BAN    "petstore.internal.v1.KeyService/ReportBan"     Clients   Internal message      CALL;
    REPORT_USAGE  "petstore.internal.v1.UsageService/ReportUsage" Clients   Internal message      CALL;
    GET_USAGE     "petstore.internal.v1.UsageService/GetUsage"    Clients   Internal message      CALL;
    ADMIN_SERVICE "petstore.admin.v1.AdminService/"               Operators Admin    message      CALL;
    HEALTH        "grpc.health.v1.Health/"                        Everyone  Tool     tool_message CALL;
    REFLECTION    "grpc.reflection."                              Clients   Tool     tool_message None;
    UNKNOWN       ""                                              Clients   Tool     tool_message CALL;
}

const CALL: Option<Duration> = Some(BOUNDS.call_timeout);

/// Returns a method of `AdminService`, with the rules for all of them.
pub const fn of_operators(path: &'static str) -> Method {
    Method { path, ..ADMIN_SERVICE }
}

/// Returns `true` if gateways call the method in batches, whose messages have a size of their own.
pub(crate) fn is_batched(method: &Method) -> bool {
    matches!(method.class, Read | Write) && method.max_message <= LIMITS.message
}

/// Returns the methods that gateways call.
pub(crate) fn all_of_gateways() -> impl Iterator<Item = &'static Method> {
    let is_called = |method: &&&Method| is_batched(method) || matches!(method.class, Internal | Batch);
    METHODS.rows.iter().filter(is_called).copied()
}

#[cfg(test)]
mod tests {
    use petstore_proto::FILE_DESCRIPTOR_SET;
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_method_of_the_contract_has_a_row() {
        let contract = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let mut rows = 0;
        for file in &contract.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("{}.{}/{}", file.package(), service.name(), method.name());
                    let found = METHODS.find(&format!("/{path}"));
                    if found.class == Admin {
                        continue;
                    }
                    assert_eq!(found.path, path);
                    assert_eq!(found.timeout.is_none(), method.client_streaming(), "{path}");
                    rows += 1;
                }
            }
        }
        assert_eq!(rows, METHODS.rows.len() - 4, "every row is of a method, but those for the rest");
    }

    #[test]
    fn every_method_has_a_name_in_metrics() {
        for (path, name) in [
            ("/petstore.v1.PetStore/GetPet", "GetPet"),
            ("/petstore.admin.v1.AdminService/GetUsage", "AdminService"),
            ("/grpc.health.v1.Health/Check", "grpc.health.v1.Health"),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "grpc.reflection"),
            ("/other.Service/Call", "unknown"),
        ] {
            assert_eq!(METHODS.find(path).name(), name);
        }
        assert_eq!(of_operators("petstore.admin.v1.AdminService/GetUsage").name(), "AdminService/GetUsage");
    }

    #[test]
    fn an_unknown_method_needs_authentication() {
        for path in ["", "/", "/x", "/petstore.v1.PetStore/", "/petstore.v1.PetStore/GetPetX"] {
            assert_eq!(METHODS.find(path).callers, Clients, "{path}");
        }
        assert_eq!(METHODS.find("/grpc.health.v1.Health/Watch").callers, Everyone);
        assert_eq!(METHODS.find("/grpc.health.v1.HealthX/Watch").callers, Clients);
        assert_eq!(METHODS.find("/petstore.admin.v1.AdminService/GetUsage").callers, Operators);
    }
}
