# Sourced by ./quickstart and ./check: Debian packages, installed only where missing, and a
# progress bar.

# bar WHAT: reads "DONE TOTAL" lines; draws on a terminal, else says only that it begins.
bar() {
  local done total marks
  if [ ! -t 2 ]; then
    read -r done && echo "$1 ..." >&2 && cat >/dev/null
    return 0
  fi
  while read -r done total; do
    [ "${total:-0}" -gt 0 ] || continue
    marks=$((30 * done / total))
    printf '\r%s [%s%s] %3d %%\e[K' "$1" "$(printf '%*s' $marks '' | tr ' ' '#')" \
      "$(printf '%*s' $((30 - marks)) '' | tr ' ' '.')" $((100 * done / total)) >&2
  done
  printf '\r\e[K' >&2
}

# What the engine needs to be built and run (docs/decisions/0001-dependencies.md).
BUILD_PACKAGES="g++ cmake ninja-build ccache pkg-config libfmt-dev nlohmann-json3-dev
  libsimdjson-dev libcli11-dev libcurl4-openssl-dev libssl-dev libxxhash-dev libpcre2-dev
  libutf8proc-dev libedit-dev ca-certificates"
# What the tests need besides.
CHECK_PACKAGES="git libgtest-dev libgmock-dev googletest clang-14 clang-format-14
  clang-tidy-14 libclang-rt-14-dev llvm-14 g++-aarch64-linux-gnu qemu-user-static
  python3 python3-venv xz-utils binutils strace mount"

# Names of those that are not installed.
missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
  done
}

# apt_get WHAT ARGUMENTS...: with a bar; apt's own words only when it fails.
apt_get() {
  local what=$1 log as_root=""
  shift
  [ "$(id -u)" = 0 ] || as_root=sudo
  log=$(mktemp)
  # "dlstatus:N:PERCENT:..." while it downloads, "pmstatus:NAME:PERCENT:..." while it installs.
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o APT::Status-Fd=1 "$@" \
      </dev/null 2>&1 | tee "$log" |
    sed -un 's/^\(dl\|pm\)status:[^:]*:\([0-9]*\).*/\2 100/p' | bar "$what"
  if [ "${PIPESTATUS[0]}" != 0 ]; then
    grep -v '^[dp][lm]status' "$log" | tail -20 >&2
    rm -f "$log"
    echo "packages: apt-get $* failed: the cause is above; mend it and run this again" >&2
    return 1
  fi
  rm -f "$log"
}

# install_packages NAMES...: returns 1, having said why, when it cannot.
install_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null; then
    echo "packages: this is no Debian, so nothing is installed; wanted: $*" >&2
    return 0
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "packages: not root and no sudo; as root: apt-get install" $missing >&2
    return 1
  fi
  echo "packages: installing" $missing >&2
  apt_get "packages: reading the lists" update &&
    apt_get "packages: installing" --no-install-recommends install $missing
}
