//! The script as Redis is called with it.

use std::sync::LazyLock;

use redis::{Cmd, Script};

use super::step::Step;

const SOURCE: &str = include_str!("redis.lua");

static DIGEST: LazyLock<String> = LazyLock::new(|| Script::new(SOURCE).get_hash().to_owned());

/// A call of the script that Redis knows already. If it does not, it answers NOSCRIPT and did nothing.
pub(super) fn call(steps: &[Step], time: Option<u64>) -> Cmd {
    with_arguments("EVALSHA", &DIGEST, steps, time)
}

/// The same call with the script's text, which Redis remembers.
pub(super) fn first_call(steps: &[Step], time: Option<u64>) -> Cmd {
    with_arguments("EVAL", SOURCE, steps, time)
}

fn with_arguments(verb: &str, script: &str, steps: &[Step], time: Option<u64>) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(steps.len() * 2);
    for step in steps {
        step.write_keys(&mut command);
    }
    match time {
        Some(time) => command.arg(time),
        None => command.arg(""),
    };
    for step in steps {
        step.write_arguments(&mut command);
    }
    command
}
