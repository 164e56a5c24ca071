//! libFuzzer on the target that the variable `FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

use petstore_fuzz::TARGETS;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.into_iter().find(|(target, _)| *target == name);
    target.unwrap_or_else(|| panic!("FUZZ_TARGET={name} is not one of {TARGETS:?}")).1
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
