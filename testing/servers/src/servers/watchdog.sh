# Ends a server when the process that started it is gone. Arguments: the signal that ends the server, its folder.
# Reads the server's process id, one line for each of its starts and an empty one for each of its ends. The end of
# the input means that the other process is gone.
signal=$1 folder=$2 pid=
while read -r line; do pid=$line; done

has_ended() {
  # Dead and not yet waited for ("Z") is as good as gone: in a container perhaps nobody ever waits.
  ! kill -0 "$pid" 2>/dev/null || grep -qs ') Z ' "/proc/$pid/stat"
}

if [ -n "$pid" ]; then
  # A stopped process takes no other signal than SIGKILL.
  for stopped in $(cat "/proc/$pid/task/$pid/children") "$pid"; do kill -CONT "$stopped"; done
  kill "-$signal" "$pid"
  tries=200 # of 50 ms
  until has_ended || [ $((tries -= 1)) = 0 ]; do sleep 0.05; done
  has_ended || kill -KILL "$pid"
fi
rm -rf -- "$folder"
