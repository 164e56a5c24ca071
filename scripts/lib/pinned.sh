# Sourced: installs the packages that lock files pin. Each folder keeps a copy of the pins that it was installed from,
# written last: an interrupted installation is repeated, a complete one is left alone.

# Installs the packages of PINS/package-lock.json into FOLDER/node_modules, without install scripts: none is needed.
install_npm() { # PINS FOLDER
  if cmp --silent "$1/package-lock.json" "$2/node_modules/.installed-from"; then return; fi
  rm -rf "$2/node_modules"
  mkdir -p "$2"
  if [ ! "$1" -ef "$2" ]; then cp "$1/package.json" "$1/package-lock.json" "$2/"; fi
  (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  cp "$1/package-lock.json" "$2/node_modules/.installed-from"
}

# Installs the packages of a requirements file, which lists all of them, into a virtual environment.
install_python() { # REQUIREMENTS FOLDER
  if cmp --silent "$1" "$2/.installed-from"; then return; fi
  rm -rf "$2"
  python3 -m venv "$2"
  "$2/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$1"
  cp "$1" "$2/.installed-from"
}

# Installs a program from crates.io into FOLDER/bin, with the dependencies of its lock file. Without optimisation, which
# would take longer than it saves.
install_cargo() { # PACKAGE VERSION FOLDER
  if grep -qs "^\"$1 $2 " "$3/.crates.toml"; then return; fi
  CARGO_PROFILE_DEV_DEBUG=0 cargo install "$1" --version "$2" --locked --debug --quiet --root "$3"
}
