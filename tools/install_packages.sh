# Sourced by ./quickstart and ./check: Debian packages, installed only where missing.

# What the engine needs to be built and run (docs/decisions/0001-dependencies.md).
BUILD_PACKAGES="g++ cmake ninja-build ccache pkg-config libfmt-dev nlohmann-json3-dev
  libsimdjson-dev libcli11-dev libcurl4-openssl-dev libssl-dev libxxhash-dev libpcre2-dev
  libutf8proc-dev libedit-dev ca-certificates"
# What the tests need besides.
CHECK_PACKAGES="git libgtest-dev libgmock-dev googletest clang-14 clang-format-14
  clang-tidy-14 libclang-rt-14-dev llvm-14 g++-aarch64-linux-gnu qemu-user-static
  python3 python3-venv xz-utils binutils"

# Names of those that are not installed.
missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
  done
}

# install_packages NAMES...: returns 1, having said why, when it cannot.
install_packages() {
  local missing as_root=""
  if ! command -v dpkg-query >/dev/null; then
    echo "packages: this is no Debian, so nothing is installed; wanted: $*" >&2
    return 0
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "packages: not root and no sudo; as root: apt-get install $(echo $missing)" >&2
      return 1
    fi
    as_root="sudo"
  fi
  echo "packages: installing $(echo $missing)" >&2
  export DEBIAN_FRONTEND=noninteractive
  if ! $as_root apt-get -q update >&2 ||
     ! $as_root env DEBIAN_FRONTEND=noninteractive \
         apt-get -q -y --no-install-recommends install $missing </dev/null >&2; then
    echo "packages: apt-get failed; look above, mend it, and run this again" >&2
    return 1
  fi
}
