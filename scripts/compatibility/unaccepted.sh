# Sourced. What was added since the last acceptance may still change: that is told, and is no failure.
tell_unaccepted() { # ACCEPTED CURRENT
  diff --recursive --brief "$1" "$2" >/dev/null ||
    echo "note: $2 has more than $1; once clients may rely on it, run scripts/compatibility/accept"
}
