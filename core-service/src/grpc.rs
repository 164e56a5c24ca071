//! The rules and bounds of methods, for the services of every area. A method parses its request, calls the
//! store and answers; [`Core::answer`] puts the same bounds around each, on every transport. Limits that a
//! process chooses are in `GrpcServerLimits`.

use petstore_grpc_server::{
    Callers::{Clients, Everyone, Operators},
    Class::{Admin, Batch, Import, Internal, Read, Tool, Watch, Write},
    Limits, Method, Methods,
};
use petstore_proto::rpc::{BATCH_CREATE_PETS, LIST_CHANGES, RPCS, Rpc};
use tonic::{Request, Response};

use crate::{Core, errors::PetStoreError};

/// Result of the work of a method.
pub(crate) type CallResult<T> = Result<T, PetStoreError>;

impl Core {
    /// Runs the work of a method, within the bounds of that.
    pub(crate) async fn answer<M, T, F: Future<Output = CallResult<T>>>(
        &self,
        rpc: Rpc,
        request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> tonic::Result<Response<T>> {
        let method = &ROWS[rpc.number];
        self.calls.answer(self.calls.capacity(method.class), method, request, work).await
    }
}

/// Every method of the contract, at its number, and then the remaining methods of the services.
pub(crate) static METHODS: Methods = Methods { rows: &ROWS, rest: &UNKNOWN };

static ROWS: [Method; RPCS.len() + 4] = {
    let mut rows = [UNKNOWN; RPCS.len() + 4];
    let mut number = 0;
    while number < RPCS.len() {
        rows[number] = rules(RPCS[number]);
        number += 1;
    }
    [rows[number], rows[number + 1], rows[number + 2], rows[number + 3]] =
        [ADMIN_SERVICE, WATCH, HEALTH, REFLECTION];
    rows
};

const ADMIN_SERVICE: Method =
    Method { callers: Operators, class: Admin, ..of_clients("petstore.admin.v1.AdminService/") };
const HEALTH: Method = Method { path: "grpc.health.v1.Health/", callers: Everyone, ..UNKNOWN };
const WATCH: Method = Method { path: "grpc.health.v1.Health/Watch", class: Watch, ..HEALTH };
const REFLECTION: Method = Method { path: "grpc.reflection.", timeout: None, ..UNKNOWN };
const UNKNOWN: Method = Method { class: Tool, max_message: BOUNDS.tool_message, ..of_clients("") };

const fn of_clients(path: &'static str) -> Method {
    let timeout = Some(BOUNDS.call_timeout);
    let max_message = MAX_MESSAGE;
    Method { path, callers: Clients, class: Internal, max_message, timeout, is_polled: false }
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
        max_message: if is_bulk { MAX_BULK_MESSAGE } else { MAX_MESSAGE },
        timeout: if rpc.takes_stream { None } else { Some(BOUNDS.call_timeout) },
        is_polled: rpc.number == LIST_CHANGES.number,
        ..of_clients(rpc.path)
    }
}

/// Returns a method of `AdminService`, with the rules for all of them.
pub const fn of_operators(path: &'static str) -> Method {
    Method { path, ..ADMIN_SERVICE }
}

/// Returns `true` if gateways call the method in batches, whose messages have a size of their own.
pub(crate) fn is_batched(method: &Method) -> bool {
    matches!(method.class, Read | Write) && method.max_message <= MAX_MESSAGE
}

/// Returns the methods that gateways call.
pub(crate) fn all_of_gateways() -> impl Iterator<Item = &'static Method> {
    let is_called = |method: &&Method| is_batched(method) || matches!(method.class, Internal | Batch);
    METHODS.rows.iter().filter(is_called)
}

const KIB: usize = 1024;

/// Size of a message of most methods, either way, in bytes. A page of 100 pets with the longest names has 110
/// KiB.
pub(crate) const MAX_MESSAGE: usize = 256 * KIB;
/// Size of a message of the methods that carry up to 1,000 pets. With the longest names those have 1.03 MiB.
pub(crate) const MAX_BULK_MESSAGE: usize = 1_280 * KIB;
/// Size of an answer about keys. Each takes at most 1.8 KiB: the reasons of a suspension and of a ban have
/// 200 characters each, and so up to 800 bytes.
pub(crate) const MAX_KEYS_ANSWER: usize = 2_000 * KIB;
/// Entries of one message of a gateway: digests, changes, uses, counts.
pub(crate) const MAX_ENTRIES: usize = 1_000;
/// Calls in one batch: as many as one connection could carry separately.
pub(crate) const MAX_BATCH: usize = 128;
/// Chunks of up to 1,000 pets that are written concurrently; others wait, in their order. These keep two CPU
/// cores and a database busy, and leave connections for calls about single pets.
pub(crate) const CHUNKS: usize = 4;

/// Bounds of all calls. A call has its time from its first byte, unless its caller sets a shorter timeout.
/// Each step of a stream has the same time.
pub(crate) const BOUNDS: Limits = Limits::DEFAULT;

const _: () = assert!(BOUNDS.data_in_flight + MAX_BULK_MESSAGE * BOUNDS.imports <= 64 * 1024 * KIB);
// On one connection 8 of the largest messages, and 16 of a gateway's.
const _: () = assert!(MAX_BULK_MESSAGE * 8 <= BOUNDS.data_in_flight / BOUNDS.connection_share);
const _: () = assert!(MAX_MESSAGE * 16 <= BOUNDS.internal_in_flight / BOUNDS.connection_share);

#[cfg(test)]
mod tests {
    use petstore_proto::rpc::{CALL, CREATE_PET, GET_PET, GET_USAGE, IMPORT_PETS, REPORT_USAGE};

    use super::*;

    #[test]
    fn the_rules_of_a_method_follow_from_its_descriptor() {
        for (rpc, class, max_message) in [
            (GET_PET, Read, MAX_MESSAGE),
            (CREATE_PET, Write, MAX_MESSAGE),
            (BATCH_CREATE_PETS, Write, MAX_BULK_MESSAGE),
            (IMPORT_PETS, Import, MAX_BULK_MESSAGE),
            (CALL, Batch, MAX_MESSAGE),
            (GET_USAGE, Internal, MAX_MESSAGE),
            (REPORT_USAGE, Internal, MAX_MESSAGE),
        ] {
            let found = METHODS.find(&format!("/{}", rpc.path));
            assert_eq!((found.path, found.class, found.max_message), (rpc.path, class, max_message));
            assert_eq!((found.callers, found.timeout.is_none()), (Clients, rpc.takes_stream), "{}", rpc.path);
        }
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
