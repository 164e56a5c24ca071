# Sourced: Rust, in the version of rust-toolchain.toml; where rustup neither has that nor can fetch it, in its default
# version, with a warning. Without rustup, whatever cargo is there.
command -v cargo >/dev/null || { echo "error: Rust is needed: https://rustup.rs" >&2; exit 1; }
if command -v rustup >/dev/null && ! cargo --version >/dev/null 2>&1; then
  RUSTUP_TOOLCHAIN=$(rustup default | cut -d' ' -f1)
  export RUSTUP_TOOLCHAIN
  echo "warning: the Rust of rust-toolchain.toml is not to be had here; using $RUSTUP_TOOLCHAIN" >&2
fi
