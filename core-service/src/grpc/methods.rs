//! Table of methods, with the rules for each, on every transport.

use petstore_grpc_server::{
    Callers::{Clients, Everyone, Operators},
    Class::{Admin, Batch, Import, Internal, Read, Tool, Write},
    Method, Methods,
};
use petstore_proto::rpc::{BATCH_CREATE_PETS, RPCS, Rpc};

use super::limits::{BOUNDS, LIMITS};

/// Every method of the contract, at its number, and then the remaining methods of the services.
pub(crate) static METHODS: Methods = Methods { rows: &ROWS, rest: &UNKNOWN };

static ROWS: [Method; RPCS.len() + 3] = {
    let mut rows = [UNKNOWN; RPCS.len() + 3];
    let mut number = 0;
    while number < RPCS.len() {
        rows[number] = rules(RPCS[number]);
        number += 1;
    }
    (rows[number], rows[number + 1], rows[number + 2]) = (ADMIN_SERVICE, HEALTH, REFLECTION);
    rows
};

const ADMIN_SERVICE: Method =
    Method { callers: Operators, class: Admin, ..of_clients("petstore.admin.v1.AdminService/") };
const HEALTH: Method = Method { path: "grpc.health.v1.Health/", callers: Everyone, ..UNKNOWN };
const REFLECTION: Method = Method { path: "grpc.reflection.", timeout: None, ..UNKNOWN };
const UNKNOWN: Method = Method { class: Tool, max_message: LIMITS.tool_message, ..of_clients("") };

const fn of_clients(path: &'static str) -> Method {
    let timeout = Some(BOUNDS.call_timeout);
    Method { path, callers: Clients, class: Internal, max_message: LIMITS.message, timeout }
}

/// Returns the rules for a method, which follow from its descriptor, except that one that takes many pets may
/// have larger messages.
const fn rules(rpc: Rpc) -> Method {
    let is_bulk = rpc.takes_stream || rpc.number == BATCH_CREATE_PETS.number;
    let class = match rpc {
        Rpc { returns_stream: true, .. } => Batch,
        Rpc { is_internal: true, .. } => Internal,
        Rpc { takes_stream: true, .. } => Import,
        Rpc { is_read: true, .. } => Read,
        _ => Write,
    };
    Method {
        class,
        max_message: if is_bulk { LIMITS.bulk_message } else { LIMITS.message },
        timeout: if rpc.takes_stream { None } else { Some(BOUNDS.call_timeout) },
        ..of_clients(rpc.path)
    }
}

/// Returns the rules for a method of the contract.
pub(crate) fn of(rpc: Rpc) -> &'static Method {
    &ROWS[rpc.number]
}

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
    let is_called = |method: &&Method| is_batched(method) || matches!(method.class, Internal | Batch);
    METHODS.rows.iter().filter(is_called)
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
        assert_eq!(rows, METHODS.rows.len() - 3, "every row is of a method, but those for the rest");
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
