# Sourced. Sets `baseline` to the last release: the newest tag v* before this commit, or, in a clone without tags, the
# commit in the file `baseline`.
if [ "$(git rev-parse --is-shallow-repository)" != false ]; then
  echo "error: this clone lacks the history that names the last release: run git fetch --unshallow --tags" >&2
  exit 1
fi
baseline=$(git describe --tags --abbrev=0 --match 'v[0-9]*' --exclude '*-*' HEAD^ 2>/dev/null) ||
  baseline=$(<testing/compatibility/baseline)
