# Sourced: the programs that the scripts need.

# Sees to it that a program is there, on Debian by installing the package that holds it.
need() { # PROGRAM PACKAGE
  if command -v "$1" >/dev/null; then return; fi
  install_package "$2"
  command -v "$1" >/dev/null || { echo "error: $1 is needed: install the package $2" >&2; return 1; }
}

# Installs a Debian package, as root or with sudo; on other systems it only says what is missing.
install_package() { # PACKAGE
  local as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  command -v apt-get >/dev/null || { echo "error: the package $1 is needed" >&2; return 1; }
  echo "installing the Debian package $1" >&2
  "${as_root[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -qq -y --no-install-recommends "$1" >&2
}
