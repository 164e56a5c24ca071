use std::future;

use super::*;
use crate::methods::Callers;

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] CallFault);

impl MethodError for Failed {
    fn code(&self) -> &'static str {
        "FAILED"
    }

    fn status(&self) -> tonic::Code {
        match self.0 {
            CallFault::DeadlineExceeded => tonic::Code::DeadlineExceeded,
            CallFault::Overloaded => tonic::Code::Unavailable,
            _ => tonic::Code::Internal,
        }
    }

    fn details(&self) -> tonic_types::ErrorDetails {
        tonic_types::ErrorDetails::new()
    }
}

const READ: Method = Method {
    path: "example.v1.Service/Read",
    callers: Callers::Clients,
    class: Class::Read,
    max_message: 1_024,
    timeout: Some(Duration::from_secs(5)),
    is_polled: false,
};

static METHODS: Methods = Methods { rows: &[READ], rest: &READ };

fn calls() -> Calls {
    Calls::new::<Failed>(&Limits::DEFAULT, METHODS)
}

async fn answer<F: Future<Output = Result<(), Failed>>>(
    calls: &Calls,
    request: Request<()>,
    work: impl FnOnce(()) -> F,
) -> Result<Response<()>, Status> {
    calls.answer(calls.capacity(READ.class), &READ, request, work).await
}

#[tokio::test]
async fn a_call_with_a_late_message_has_less_time_left() {
    let begin = Instant::now();
    let mut request = Request::new(());
    let first_byte = begin.checked_sub(Duration::from_millis(4_900)).unwrap();
    request.extensions_mut().insert(context(&HeaderMap::new(), None, first_byte));
    let error = answer(&calls(), request, async |()| future::pending().await).await;
    assert_eq!(error.unwrap_err().code(), tonic::Code::DeadlineExceeded);
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_panic_is_one_failed_call() {
    let calls = calls();
    let error = answer(&calls, Request::new(()), async |()| panic!("planted")).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (tonic::Code::Internal, "the service failed to answer"));
    answer(&calls, Request::new(()), async |()| Ok(())).await.unwrap();
}

#[tokio::test]
async fn a_call_over_the_capacity_of_its_class_is_refused_at_once() {
    let calls = calls();
    let reads = calls.capacity(Class::Read);
    let all = reads.try_acquire_many(u32::try_from(Limits::DEFAULT.calls).unwrap()).unwrap();
    let refused = answer(&calls, Request::new(()), async |()| Ok(())).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    drop(all);
    answer(&calls, Request::new(()), async |()| Ok(())).await.unwrap();
}
