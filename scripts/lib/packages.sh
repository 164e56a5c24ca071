# Sourced: the programs that the scripts need.

# Ensures that a program is there, on Debian by installing the package that has it.
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
  one_apt "${as_root[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive one_apt "${as_root[@]}" apt-get install -qq -y --no-install-recommends "$1" >&2
}

# Runs a command of apt. Checks run beside each other, and two commands of apt cannot.
one_apt() { # COMMAND...
  flock "${TMPDIR:-/tmp}/petstore-apt.lock" "$@"
}

# Puts a program of a Debian package at .tools/PROGRAM, without installing the package: its service would start.
unpack_program() { # PROGRAM PACKAGE
  if [ -x ".tools/$1" ]; then return; fi
  local folder
  folder=$(mktemp -d)
  unpack_package "$2" "$folder" || { echo "error: $1 is needed: put it at .tools/$1" >&2; return 1; }
  mkdir -p .tools
  cp "$folder/usr/bin/$1" ".tools/$1"
  rm -rf "$folder"
}

# Puts the files of a Debian package into FOLDER, without installing it.
unpack_package() { # PACKAGE FOLDER
  command -v apt-get >/dev/null || { echo "error: the package $1 is needed" >&2; return 1; }
  mkdir -p "$2"
  (cd "$2" && one_apt apt-get download -qq -o APT::Sandbox::User=root "$1" && dpkg-deb --extract ./*.deb . && rm ./*.deb)
}
