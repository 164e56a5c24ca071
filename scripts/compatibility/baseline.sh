# Sourced. The interfaces that clients may rely on: those of the last release, a tag or commit that the file `baseline`
# names. `git show` needs the history down to it.
baseline=$(<scripts/compatibility/baseline)
git cat-file -e "$baseline^{commit}" 2>/dev/null || {
  echo "error: the interfaces are compared with $baseline, which this clone lacks: run git fetch --unshallow --tags" >&2
  exit 1
}
