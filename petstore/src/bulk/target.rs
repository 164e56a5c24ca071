//! The core that an import or export calls: one behind a gRPC port, or one in this process on a store.

use clap::{ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use petstore_clock::Clock;
use petstore_core::{
    grpc,
    store::{OpenOptions, Store},
};
use petstore_gateway::core_client::CoreTransport;
use petstore_proto::v1::pet_store_client::PetStoreClient;

use crate::{
    process::StartError,
    settings::{CoreAddressSettings, DatabaseSettings},
};

/// More than the largest message of a core, in bytes.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// The core to call. Accepts the flags of both targets; a flag takes precedence over a variable, and the
/// default is the store.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Core(Box<CoreAddressSettings>),
    Store(Box<DatabaseSettings>),
}

/// A core that can be called.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) client: PetStoreClient<CoreTransport>,
    /// The store of a core in this process, to be closed afterwards.
    store: Option<Store>,
}

impl Target {
    pub(crate) async fn open(&self) -> Result<Core, StartError> {
        match self {
            Self::Core(settings) => Ok(Core::new(settings.connect()?, None)),
            Self::Store(settings) => {
                let store = Store::open(&settings.url()?, OpenOptions::default()).await?;
                let core = petstore_core::Core::new(store.clone(), Clock::system());
                Ok(Core::new(CoreTransport::new(grpc::in_memory(&core)), Some(store)))
            }
        }
    }
}

impl Core {
    fn new(transport: CoreTransport, store: Option<Store>) -> Self {
        let client = PetStoreClient::new(transport)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Self { client, store }
    }

    /// Closes the store, if the core is in this process.
    pub(crate) async fn close(self) {
        if let Some(store) = self.store {
            store.close().await;
        }
    }
}

impl Args for Target {
    fn augment_args(command: Command) -> Command {
        CoreAddressSettings::augment_args(DatabaseSettings::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        CoreAddressSettings::augment_args_for_update(DatabaseSettings::augment_args_for_update(command))
    }
}

impl FromArgMatches for Target {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let core = matches.value_source("core_url");
        let store = ["database_url", "database_url_file"].map(|id| matches.value_source(id));
        let store = store.into_iter().max().flatten();
        if core > store {
            CoreAddressSettings::from_arg_matches(matches).map(|settings| Self::Core(Box::new(settings)))
        } else if core < store || core == Some(clap::parser::ValueSource::DefaultValue) {
            DatabaseSettings::from_arg_matches(matches).map(|settings| Self::Store(Box::new(settings)))
        } else {
            let conflict = "--core-url and --database-url cannot be used together: choose one\n";
            Err(clap::Error::raw(ErrorKind::ArgumentConflict, conflict))
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        target: Target,
    }

    fn target(args: &[&str]) -> Result<Target, String> {
        let program = Program::try_parse_from(["petstore"].iter().chain(args));
        program.map(|program| program.target).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_target_is_the_store() {
        assert!(matches!(target(&[]), Ok(Target::Store(_))));
        assert!(matches!(target(&["--database-url", "sqlite://a.db"]), Ok(Target::Store(_))));
        assert!(matches!(target(&["--database-url-file", "url"]), Ok(Target::Store(_))));
        let Ok(Target::Core(core)) =
            target(&["--core-url", "http://127.0.0.1:1", "--service-token-file", "t"])
        else {
            panic!("not the core");
        };
        assert_eq!(core.core_url, "http://127.0.0.1:1");
    }

    #[test]
    fn both_targets_at_once_are_refused() {
        for store in [["--database-url", "sqlite://a.db"], ["--database-url-file", "url"]] {
            let refusal = target(&[["--core-url", "http://127.0.0.1:1"], store].concat()).unwrap_err();
            assert!(refusal.contains("--core-url and --database-url"), "{refusal}");
        }
    }
}
