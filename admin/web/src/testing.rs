//! A gateway for tests.

use petstore_caller::api_key::Environment;
use petstore_caller::client_address::TrustedProxies;
use petstore_clock::{Clock, UnixMillis};
use petstore_core_client::CoreTransport;
use petstore_gateway::{Gateway, GatewayOptions};
use petstore_telemetry::traces::Traces;

/// Returns a gateway in front of this core.
pub(crate) fn gateway(core: CoreTransport) -> Gateway {
    let options = GatewayOptions {
        environment: Environment::Production,
        trusted_proxies: TrustedProxies::default(),
        cors_origins: Vec::new(),
        bans: true,
        traces: Traces::off(),
    };
    let (clock, _) = Clock::manual(UnixMillis(1_795_200_000_000));
    Gateway::new(options, core, None, None, clock)
}
