//! Progress of an import or export, on a terminal.

use std::io::Read;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::output;

const REDRAW_A_SECOND: u8 = 5;
const BAR: &str = "{bar:30} {percent:>3} %  {msg}  {eta} left";
const SPINNER: &str = "{spinner} {msg}";

/// Progress bar on stderr if that is a terminal, otherwise nothing. Counts pets either way.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    pub(super) began: Instant,
    pub(super) pets: u64,
}

impl Progress {
    /// Creates a progress bar. It shows the remaining time if the number of bytes is known.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        let bar = match bytes {
            Some(bytes) => ProgressBar::new(bytes).with_style(style(BAR)),
            None => ProgressBar::new_spinner().with_style(style(SPINNER)),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAW_A_SECOND));
        Self { bar, began: Instant::now(), pets: 0 }
    }

    /// Returns the input, whose bytes move the bar as they are read.
    pub(crate) fn observe(&self, input: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        Box::new(self.bar.wrap_read(input))
    }

    /// Adds pets to the count.
    pub(crate) fn advance(&mut self, pets: u64) {
        self.pets += pets;
        self.bar.set_message(format!("{} pets  {}/s", HumanCount(self.pets), HumanCount(self.rate())));
        self.bar.tick();
    }

    /// Prints a line above the bar.
    pub(crate) fn note(&self, note: &str) {
        self.bar.suspend(|| output::note(note));
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Returns the rate in pets per second.
    fn rate(&self) -> u64 {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        self.pets.saturating_mul(1_000) / millis
    }

    /// Returns a sentence about the result.
    pub(crate) fn summary(&self, done: &str) -> String {
        let (pets, secs) = (HumanCount(self.pets), self.began.elapsed().as_secs_f64());
        format!("{done} {pets} pets in {secs:.1} s ({} a second)", HumanCount(self.rate()))
    }
}

/// Returns the style of this template. A test checks that the templates above are valid.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[tokio::test]
    async fn a_summary_counts_pets_with_or_without_a_terminal() {
        for bytes in [None, Some(10)] {
            let mut progress = Progress::new(bytes);
            progress.advance(1_200);
            progress.advance(34);
            progress.end();
            assert_eq!(progress.pets, 1_234);
            assert!(progress.summary("imported").starts_with("imported 1,234 pets in "));
        }
    }
}
