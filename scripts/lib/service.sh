# Sourced: starts the service for a test, on free ports and with its data in a new folder.

# Starts `petstore serve` in the folder FOLDER, which holds its data and its log, and waits until it listens.
# Sets SERVICE_PID, and HTTP_ADDR, GRPC_ADDR and ADMIN_ADDR to the addresses that it prints.
start_service() { # BINARY FOLDER [ARGUMENT...]
  local binary=$1 folder=$2
  shift 2
  : >"$folder/service.out" # there before it is looked into
  (
    cd "$folder"
    exec "$binary" serve --http-addr 127.0.0.1:0 --grpc-addr 127.0.0.1:0 --admin-addr 127.0.0.1:0 "$@"
  ) >"$folder/service.out" 2>"$folder/service.log" &
  SERVICE_PID=$!
  local tries=200 # of 50 ms
  until grep -q '^store ' "$folder/service.out"; do # the last of the lines with the addresses
    if ! kill -0 "$SERVICE_PID" 2>/dev/null || [ $((tries -= 1)) = 0 ]; then
      echo "error: the service did not start:" >&2
      cat "$folder/service.log" >&2
      return 1
    fi
    sleep 0.05
  done
  HTTP_ADDR=$(sed -n 's|^REST *http://\(.*\)/v1$|\1|p' "$folder/service.out")
  GRPC_ADDR=$(sed -n 's|^gRPC *||p' "$folder/service.out")
  ADMIN_ADDR=$(sed -n 's|^admin *http://||p' "$folder/service.out")
}

# Stops the service and removes its folder. Keeps the exit code of the caller.
stop_service() { # FOLDER
  if [ -n "${SERVICE_PID:-}" ]; then
    kill "$SERVICE_PID" 2>/dev/null || true
    wait "$SERVICE_PID" 2>/dev/null || true
  fi
  rm -rf "$1"
}
