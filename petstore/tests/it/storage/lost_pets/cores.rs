//! Two cores on one database, and a gateway in front of the first.

use petstore_testkit::{
    Client, Installation, Server, free_port,
    grpc::{self, pb},
};

use crate::key_without_limits;

const PORTS: [&str; 4] = ["--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];

/// Two cores. Faults strike the first; the second shows what the database keeps.
pub(super) struct TwoCores {
    pub(super) first: Server,
    pub(super) second: Server,
    pub(super) gateway: Server,
    /// REST client of the gateway, without limits.
    pub(super) client: Client,
}

impl TwoCores {
    /// Starts them: the first with `command` before `core`, each in its installation.
    pub(super) async fn start(first: &Installation, command: &[&str], second: &Installation) -> Self {
        let second_core = second.start(&[["core"].as_slice(), &PORTS].concat()).await;
        // No other test takes this port while the core is down.
        let address = format!("127.0.0.1:{}", free_port());
        let first = first.start(&[command, &first_core(&address)].concat()).await;
        let key = key_without_limits(second).await;
        let core_url = format!("http://{}", first.address("gRPC"));
        let flags = ["gateway", "--core-url", &core_url, "--http-addr", "127.0.0.1:0"];
        let gateway = second.start(&[flags.as_slice(), &["--admin-addr", "127.0.0.1:0"]].concat()).await;
        gateway.ready().await;
        let client = gateway.client(&key);
        Self { first, second: second_core, gateway, client }
    }

    /// Kills the first core, and starts it again on its port.
    pub(super) async fn restart_first(self, installation: &Installation, command: &[&str]) -> Self {
        let address = self.first.address("gRPC").to_string();
        self.first.crash().await;
        let first = installation.start(&[command, &first_core(&address)].concat()).await;
        Self { first, ..self }
    }
}

/// Returns the command of the first core, for this address.
fn first_core(address: &str) -> [&str; 5] {
    ["core", "--grpc-addr", address, "--admin-addr", "127.0.0.1:0"]
}

/// Returns the identifier of a new account.
pub(super) async fn account_id(operator: &Installation, name: &str) -> i64 {
    let account = operator.json(&["account", "create", name, "--plan", "free"]).await;
    account["id"].as_i64().unwrap_or_else(|| panic!("no id: {account}"))
}

/// Returns every order that a core lists.
pub(super) async fn all_orders(core: &Server) -> Vec<pb::Order> {
    let mut orders = grpc::store_service(core.address("gRPC")).await;
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListOrdersRequest { page_size: 100, page_token };
        let page = orders.list_orders(request).await.unwrap().into_inner();
        all.extend(page.orders);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}
