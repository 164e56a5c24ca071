//! Names of callers, from their certificates.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tonic::transport::CertificateDer;
use webpki::EndEntityCert;

/// Maximum number of names in metrics. The authority decides how many there are.
const MAX_NAMES: usize = 32;

/// Name of the holder of a certificate that gives none, or none that a log line can show.
const UNNAMED: &str = "unnamed";

/// Returns the name that a verified certificate gives its holder: its first DNS name or, if it has none, its
/// first URI, such as a SPIFFE ID (RFC 5280, 4.2.1.6); otherwise [`UNNAMED`]. A common name is not read.
pub(super) fn name(certificate: &CertificateDer<'_>) -> Arc<str> {
    let certificate = EndEntityCert::try_from(certificate);
    let names = certificate.iter().flat_map(|it| it.valid_dns_names().chain(it.valid_uri_names()));
    let is_shown = |name: &&str| name.len() <= 255 && name.bytes().all(|byte| byte.is_ascii_graphic());
    names.take(1).find(is_shown).unwrap_or(UNNAMED).into()
}

/// The names that metrics show. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownNames(Arc<Mutex<BTreeSet<Arc<str>>>>);

impl ShownNames {
    /// Returns the value of the name's label: `other` once [`MAX_NAMES`] other names are shown.
    pub(super) fn label<'n>(&self, name: &'n Arc<str>) -> &'n str {
        let mut shown = self.0.lock();
        if shown.len() < MAX_NAMES {
            shown.insert(Arc::clone(name));
        }
        if shown.contains(name) { name } else { "other" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_cannot_be_read_is_no_missing_one() {
        assert_eq!(&*name(&CertificateDer::from(b"no certificate".to_vec())), UNNAMED);
    }

    #[test]
    fn the_number_of_names_in_metrics_is_bounded() {
        let shown = ShownNames::default();
        let names: Vec<Arc<str>> = (0..40).map(|number| format!("caller-{number}").into()).collect();
        for _ in 0..2 {
            let labels: Vec<_> = names.iter().map(|name| shown.label(name)).collect();
            assert_eq!((labels[0], labels[31], labels[32]), ("caller-0", "caller-31", "other"));
        }
    }
}
