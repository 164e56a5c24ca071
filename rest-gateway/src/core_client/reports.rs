//! Handling of the core's answers to the reports of a gateway.

use std::sync::atomic::{AtomicBool, Ordering};

use tonic::Status;

use super::failure::{failure_text, is_final_refusal};

/// Judges the answers to reports of one kind. The log gets one line when the core begins to refuse them,
/// instead of one for each.
#[derive(Debug)]
pub(crate) struct ReportAnswers {
    /// Description of the refused reports for the log, and the consequence.
    reports: &'static str,
    is_refused: AtomicBool,
}

impl ReportAnswers {
    pub(crate) const fn new(reports: &'static str) -> Self {
        Self { reports, is_refused: AtomicBool::new(false) }
    }

    /// Returns the answer to a report, or `None` if the core refuses it and would refuse it again.
    pub(crate) fn judge<T>(&self, answer: Result<T, Status>) -> Result<Option<T>, Status> {
        match answer {
            Ok(answer) => {
                self.is_refused.store(false, Ordering::Relaxed);
                Ok(Some(answer))
            }
            Err(status) if is_final_refusal(&status) => {
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    tracing::error!(error = failure_text(&status), "the core refuses {}", self.reports);
                }
                Ok(None)
            }
            Err(status) => Err(status),
        }
    }
}
