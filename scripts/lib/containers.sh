# Sourced: podman with a separate storage folder, configuration and namespaces (network, mounts, processes). It neither sees
# nor changes the machine's containers and firewall, and everything that it starts ends with the script. Needs root, but no
# registry: images are made of programs of this machine.

# Runs a command in the namespaces. WORK is its folder, which is removed at the end.
in_namespaces() { # COMMAND...
  [ "$(id -u)" = 0 ] || exec sudo "$@" # networks need root
  need runc runc
  need podman podman
  need iptables iptables
  need ip iproute2
  need strip binutils
  local helper
  for helper in netavark aardvark-dns; do # networks, and names in them
    compgen -G "/usr/lib*/podman/$helper" >/dev/null || install_package $helper
  done
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK" 2>/dev/null || { sleep 1; rm -rf "$WORK"; }' EXIT # after a signal, processes may be ending
  # The limits are those that a process without the capability SYS_RESOURCE can set.
  cat >"$WORK/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
[network]
network_backend = "netavark"
network_config_dir = "$WORK/networks"
CONF
  printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' "$WORK" "$WORK" >"$WORK/storage.conf"
  export WORK CONTAINERS_CONF=$WORK/containers.conf CONTAINERS_STORAGE_CONF=$WORK/storage.conf TMPDIR=$WORK
  unshare --net --mount --pid --fork --kill-child --mount-proc "$@"
}

# Runs first inside: sets up a loopback interface and podman's folders in memory, and stops every container at the end.
begin_in_namespaces() {
  local folder
  ip link set lo up
  for folder in /run/containers /run/libpod /run/netns; do
    mkdir -p $folder
    mount -t tmpfs tmpfs $folder
  done
  trap 'podman rm --all --force --time 0 >/dev/null 2>&1' EXIT
}

# Puts programs of this machine into FOLDER, with the libraries that they link.
add_programs() { # FOLDER PROGRAM...
  local folder=$1 name program
  for name in bin sbin lib lib64; do
    mkdir -p "$folder/usr/$name"
    ln -sfn "usr/$name" "$folder/$name"
  done
  for name in "${@:2}"; do
    program=$(type -P "$name")
    install -D "$program" "$folder$program"
    add_libraries "$folder" "$program"
  done
}

add_libraries() { # FOLDER PROGRAM
  local library
  { ldd "$2" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
    install -D "$library" "$1$library"
  done
}

# Makes an image from FOLDER and removes the folder. The changes are lines of a Dockerfile.
make_image() { # NAME FOLDER [CHANGE...]
  local changes=("${@:3}")
  tar --create --directory="$2" . | podman import --quiet "${changes[@]/#/--change=}" - "$1" >/dev/null
  rm -rf "$2"
}

# Makes the base of deploy/Dockerfile's image: programs of this machine, with a `cargo` that copies BINARY.
make_build_image() { # BINARY
  local base=$WORK/base
  add_programs "$base" sh bash ldd grep install
  strip -o "$base/usr/bin/prebuilt" "$1"
  add_libraries "$base" "$1"
  install -D /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/ca-certificates.crt"
  cat >"$base/usr/bin/cargo" <<'CARGO'
#!/bin/sh
set -eu
[ "$*" = "build --profile dist --locked --package petstore" ] && [ -f Cargo.lock ]
exec install -D /usr/bin/prebuilt target/dist/petstore
CARGO
  chmod 755 "$base/usr/bin/cargo"
  make_image localhost/rust:stand-in "$base"
}

# Options of `podman build` for that base, and for a health check in the image.
PODMAN_BUILD=(--quiet --format docker --from localhost/rust:stand-in)
