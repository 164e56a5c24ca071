//! Core that a command calls: one behind a gRPC port, or one in this process on a store.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, error::ErrorKind, parser::ValueSource};
use futures_util::future::LocalBoxFuture;
use petstore_admin_service::Administration;
use petstore_caller::api_key::OperatorToken;
use petstore_clock::Clock;
use petstore_command_line::RuntimeError;
use petstore_core::{Core, server, store::Store};
use petstore_core_client::CoreTransport;
use petstore_database::{Database, OpenOptions};
use petstore_settings::{CoreAddressSettings, DatabaseSettings, InvalidSetting, secret_file};

use crate::error::CommandError;

/// Core that a command calls; `C` has the settings of one behind a gRPC port. Accepts the flags of both
/// targets. A flag takes precedence over a variable, and the default is the store.
#[derive(Clone, Debug)]
pub(crate) enum CoreTarget<C> {
    Remote(Box<C>),
    Store(Box<DatabaseSettings>),
}

/// Settings of a core behind a gRPC port.
pub(crate) trait RemoteCore: Args {
    /// Argument that selects the remote core also by its variable. The flag --core-url always does.
    const SELECTED_BY: &'static str;

    /// Returns the transport to the core.
    fn connect(&self) -> Result<CoreTransport, InvalidSetting>;
}

impl RemoteCore for CoreAddressSettings {
    const SELECTED_BY: &'static str = "core_url";

    fn connect(&self) -> Result<CoreTransport, InvalidSetting> {
        Self::connect(self)
    }
}

/// Settings with which an operator calls a core.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct OperatorCoreSettings {
    #[command(flatten)]
    core: CoreAddressSettings,

    /// File with the operator's token for the core at --core-url, mode 0600. Without --core-url and a token,
    /// the command works on the store of --database-url
    #[arg(long, env = "PETSTORE_OPERATOR_TOKEN_FILE", value_name = "FILE")]
    operator_token_file: Option<PathBuf>,
}

impl RemoteCore for OperatorCoreSettings {
    /// Not `core_url`: on the machine of a gateway its variable is set, and a command without a token is for
    /// the store.
    const SELECTED_BY: &'static str = "operator_token_file";

    fn connect(&self) -> Result<CoreTransport, InvalidSetting> {
        self.core.connect()
    }
}

impl OperatorCoreSettings {
    pub(crate) fn token(&self) -> Result<OperatorToken, InvalidSetting> {
        let Some(file) = &self.operator_token_file else {
            return Err(InvalidSetting::new("--operator-token-file", "is required with --core-url"));
        };
        secret_file(file)
            .and_then(|written| {
                let token = OperatorToken::parse(written.trim()).filter(|token| !token.is_session());
                token.ok_or_else(|| format!("{} must hold one operator token (pet_op_…)", file.display()))
            })
            .map_err(|reason| InvalidSetting::new("--operator-token-file", reason))
    }
}

/// Connection to a core.
pub(crate) struct ConnectedCore {
    pub(crate) transport: CoreTransport,
    /// Database of a core in this process.
    database: Option<Database>,
}

impl<C: RemoteCore> CoreTarget<C> {
    /// Connects to the core, or opens the store, which must exist and have the schema of this version.
    pub(crate) async fn connect(&self) -> Result<ConnectedCore, CommandError> {
        match self {
            Self::Remote(core) => Ok(ConnectedCore { transport: core.connect()?, database: None }),
            Self::Store(settings) => {
                let store = Store::open(&settings.url()?, &[], OpenOptions::default()).await?;
                let database = store.database().clone();
                let core = Administration::new(Core::new(store, Clock::system()));
                // The calls of `AdminService` are those of the operator `local`.
                let transport = CoreTransport::new(server::in_memory(core.services_as_local_operator()));
                Ok(ConnectedCore { transport, database: Some(database) })
            }
        }
    }
}

impl ConnectedCore {
    /// Closes the store, if the core is in this process.
    pub(crate) async fn close(self) {
        if let Some(database) = self.database {
            database.close().await;
        }
    }
}

/// Runs the work of a command, which logs only warnings and errors, except about a core that refuses it or
/// does not answer: the command's own error says so.
pub(crate) fn block_on<T, E: From<RuntimeError>>(work: LocalBoxFuture<'_, Result<T, E>>) -> Result<T, E> {
    petstore_command_line::block_on("warn,petstore_core_client::cores=off", work)
}

impl<C: RemoteCore> Args for CoreTarget<C> {
    fn augment_args(command: Command) -> Command {
        let args = C::augment_args(DatabaseSettings::augment_args(Command::default()));
        // Under a heading: clap sorts global flags among those of each command.
        command.args(args.get_arguments().map(|arg| arg.clone().global(true).help_heading("Core or store")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: RemoteCore> FromArgMatches for CoreTarget<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let explicit = |source: &ValueSource| *source != ValueSource::DefaultValue;
        let by_flag = matches.value_source("core_url").filter(|source| *source == ValueSource::CommandLine);
        let remote = by_flag.max(matches.value_source(C::SELECTED_BY).filter(explicit));
        let of_store = |id| (matches.value_source(id).filter(explicit), id);
        let (store, store_flag) =
            ["database_url", "database_url_file"].map(of_store).into_iter().max().unwrap_or_default();
        if remote > store {
            C::from_arg_matches(matches).map(|settings| Self::Remote(Box::new(settings)))
        } else if remote < store || remote.is_none() {
            let of_core = ["service_token_file", "core_ca", "core_cert", "core_key"];
            let is_typed = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
            if let Some(flag) = of_core.into_iter().find(is_typed) {
                let refusal = format!("--{} has no effect without --core-url\n", flag.replace('_', "-"));
                return Err(clap::Error::raw(ErrorKind::ArgumentConflict, refusal));
            }
            DatabaseSettings::from_arg_matches(matches).map(|settings| Self::Store(Box::new(settings)))
        } else {
            let selected = if by_flag.is_some() { "core_url" } else { C::SELECTED_BY };
            let [one, other] = [selected, store_flag].map(|flag| flag.replace('_', "-"));
            let conflict = format!("--{one} and --{other} cannot be used together\n");
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
    struct Program<C: RemoteCore> {
        #[command(flatten)]
        target: CoreTarget<C>,
    }

    fn target<C: RemoteCore>(args: &[&str]) -> Result<CoreTarget<C>, String> {
        let program = Program::try_parse_from(["petstore"].iter().chain(args));
        program.map(|program| program.target).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_target_is_the_store() {
        for args in [&[][..], &["--database-url", "sqlite://a.db"], &["--database-url-file", "url"]] {
            assert!(matches!(target::<CoreAddressSettings>(args), Ok(CoreTarget::Store(_))), "{args:?}");
            assert!(matches!(target::<OperatorCoreSettings>(args), Ok(CoreTarget::Store(_))), "{args:?}");
        }
    }

    #[test]
    fn a_core_that_is_named_is_called() {
        let args = ["--core-url", "http://127.0.0.1:1", "--service-token-file", "t"];
        let Ok(CoreTarget::Remote(core)) = target::<CoreAddressSettings>(&args) else {
            panic!("not the core");
        };
        assert_eq!(core.core_url, ["http://127.0.0.1:1"]);
    }

    #[test]
    fn an_operator_calls_the_core_with_a_token() {
        let Ok(CoreTarget::Remote(core)) = target::<OperatorCoreSettings>(&["--operator-token-file", "t"])
        else {
            panic!("not the core");
        };
        assert_eq!(core.core.core_url, ["http://127.0.0.1:50051"]);
        let Ok(CoreTarget::Remote(core)) =
            target::<OperatorCoreSettings>(&["--core-url", "http://127.0.0.1:1"])
        else {
            panic!("not the core");
        };
        let refusal = core.token().unwrap_err().to_string();
        assert_eq!(refusal, "--operator-token-file: is required with --core-url");
    }

    #[test]
    fn both_targets_at_once_are_refused() {
        for store in [["--database-url", "sqlite://a.db"], ["--database-url-file", "url"]] {
            let args = [["--core-url", "http://127.0.0.1:1"], store].concat();
            let refusal = target::<CoreAddressSettings>(&args).unwrap_err();
            assert!(refusal.contains(&format!("--core-url and {} cannot", store[0])), "{refusal}");
            let args = [["--operator-token-file", "token"], store].concat();
            let refusal = target::<OperatorCoreSettings>(&args).unwrap_err();
            assert!(refusal.contains(&format!("--operator-token-file and {} cannot", store[0])), "{refusal}");
        }
    }
}
