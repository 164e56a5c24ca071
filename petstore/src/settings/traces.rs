//! Whether requests are traced.

use petstore_telemetry::traces::OtlpEndpoint;

/// Whether requests are traced.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceSettings {
    /// Where traces are sent, over OTLP: the gRPC port of a receiver, such as `http://127.0.0.1:4317`. Without it
    /// nothing is traced
    #[arg(long, env = "PETSTORE_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<OtlpEndpoint>,

    /// The part of the requests that is traced, from 0 to 1, of those whose sender has not decided on it (in `traceparent`)
    #[arg(long, env = "PETSTORE_TRACE_RATIO", default_value = "0.01", value_parser = ratio, value_name = "NUMBER")]
    pub trace_ratio: f64,
}

fn ratio(written: &str) -> Result<f64, &'static str> {
    let ratio = written.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or("must be a number from 0 to 1, such as 0.01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_a_number_from_0_to_1() {
        for (written, value) in [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1e-3", 0.001)] {
            assert_eq!(ratio(written), Ok(value), "{written}");
        }
        for written in ["", "-0.1", "1.01", "NaN", "inf", "1%"] {
            assert!(ratio(written).is_err(), "{written}");
        }
    }
}
