//! `petstore check`: a service at any address, compared with the contract.

use std::{io::Read, path::PathBuf};

use axum::http::HeaderValue;
use petstore_admin_check::{BaseUrl, CheckTarget};
use petstore_command_line::{
    Signals, block_on,
    output::{OutputSettings, reason},
    output_file::{OutputFile, OutputKind},
};
use petstore_http_server::tls;
use petstore_settings::{InvalidSetting, SecretUrl, secret_file, settings_file};

use crate::error::CliError;

/// Upper bound of a key, in bytes.
const MAX_KEY: usize = 512;

/// Settings of proxies without which they break the contract.
const PROXIES: &str = "Proxies break the contract by default. nginx needs proxy_request_buffering off, \
    client_max_body_size 0, large_client_header_buffers 4 64k and proxy_set_header X-Forwarded-For \
    $remote_addr; HAProxy needs tune.bufsize 49152, tune.http.maxhdr 256 and http-request set-header \
    X-Forwarded-For %[src]. The service needs --trusted-proxy with the proxy's address.";

#[derive(Debug, clap::Args)]
#[command(after_help = PROXIES)]
pub(crate) struct CheckSettings {
    /// Base address of the service, such as `https://shop.example/v1`
    #[arg(value_name = "BASE_URL", value_parser = SecretUrl::<BaseUrl>::default())]
    base_url: BaseUrl,

    /// File with an API key of an account that nobody else uses meanwhile, mode 0600; `-` is standard input
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,

    /// File with the authorities that may issue the service's certificate, in PEM, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Check createPet too, which adds a pet that stays
    #[arg(long)]
    write: bool,

    /// Check what happens over the limit too: send one request more than are left in the account's minute, at
    /// most 1,001, and wait until it ends
    #[arg(long)]
    exhaust: bool,

    /// Write the result to this file too, as `JUnit` XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Replace the file of --junit if it exists
    #[arg(long, requires = "junit")]
    force: bool,

    #[command(flatten)]
    output: OutputSettings,
}

/// Checks the service and prints the result. Fails if a clause is broken.
pub(crate) fn run(settings: &CheckSettings) -> Result<(), CliError> {
    let authorities = settings.ca.as_ref().map(|file| {
        if settings.base_url.to_string().starts_with("http:") {
            return Err(InvalidSetting::new("--ca", "is for an address with https://"));
        }
        let invalid = |reason: String| InvalidSetting::new("--ca", format!("{} {reason}", file.display()));
        let (pem, _) = settings_file(file).map_err(|reason| InvalidSetting::new("--ca", reason))?;
        tls::authorities(&pem).map_err(|error| invalid(error.to_string()))
    });
    let target = CheckTarget {
        base_url: settings.base_url.clone(),
        authorization: authorization(settings)?,
        authorities: authorities.transpose()?,
        writes: settings.write,
        exhausts: settings.exhaust,
    };
    let junit = settings.junit.as_deref();
    let junit = junit.map(|file| OutputFile::create(file, OutputKind::Text, settings.force)).transpose()?;
    let document = petstore_gateway::openapi::document();
    // From here on a signal removes the file. Before, it ends even a wait for the reader of a pipe.
    let checked = async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            report = petstore_admin_check::check(target, document) => Ok(report?),
            signal = signals.received() => Err(CliError::Failed(format!("ended by {signal}"))),
        }
    };
    let report = block_on("warn", Box::pin(checked))?;
    if let Some(junit) = junit {
        junit.fill(report.junit().as_bytes())?;
    }
    settings.output.print(&report.json(), |_| report.text())?;
    if report.broken() == 0 { Ok(()) } else { Err(CliError::ContractBroken(report.broken())) }
}

/// Returns the field with the key.
fn authorization(settings: &CheckSettings) -> Result<HeaderValue, InvalidSetting> {
    let invalid = |reason: String| InvalidSetting::new("--key-file", reason);
    let written = if settings.key_file.as_os_str() == "-" {
        let mut written = String::new();
        let read = std::io::stdin().take(2 * MAX_KEY as u64).read_to_string(&mut written);
        read.map_err(|error| invalid(format!("cannot read standard input: {}", reason(&error))))?;
        written
    } else {
        secret_file(&settings.key_file).map_err(invalid)?
    };
    let key = Some(written.trim())
        .filter(|key| (1..=MAX_KEY).contains(&key.len()) && !key.contains(char::is_whitespace));
    let value = key.and_then(|key| HeaderValue::try_from(format!("Bearer {key}")).ok());
    let mut value = value.ok_or_else(|| invalid("must hold one API key".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
