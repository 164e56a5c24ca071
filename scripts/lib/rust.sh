# Sourced: chooses Rust in the version of rust-toolchain.toml. If rustup neither has nor can fetch that version, it chooses
# rustup's default with a warning. Without rustup, it uses the installed cargo.
command -v cargo >/dev/null || { echo "error: Rust is needed: https://rustup.rs" >&2; exit 1; }
if command -v rustup >/dev/null && ! cargo --version >/dev/null 2>&1; then
  RUSTUP_TOOLCHAIN=$(rustup default | cut -d' ' -f1)
  export RUSTUP_TOOLCHAIN
  echo "warning: the Rust version of rust-toolchain.toml is not available; using $RUSTUP_TOOLCHAIN" >&2
fi
