# setup.sh - sourced by scripts/run and scripts/test: packages and builds.
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }

# packages GROUP...: the names in those groups of packages.txt
packages() {
    awk -v want=" $* " '/^# group:/ { group = $3; next } /^#/ || NF == 0 { next }
        index(want, " " group " ") { print $1 }' scripts/packages.txt
}

# install GROUP...: installs what is missing; nothing happens when all is there
install() {
    command -v dpkg-query >/dev/null || return 0 # not Debian: whoever builds knows what is there
    local wanted missing
    wanted=$(packages "$@")
    # shellcheck disable=SC2086
    missing=$(comm -23 <(sort -u <<<"$wanted") <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' \
        $wanted 2>/dev/null | awk '$2 == "installed" { print $1 }' | sort -u) | tr '\n' ' ')
    [ -n "${missing// /}" ] || return 0
    local sudo=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || {
            say "These packages are missing, and installing them takes root: apt-get install $missing"
            exit 1
        }
        sudo=sudo
    fi
    say "Installing: $missing"
    local apt="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0"
    # shellcheck disable=SC2086
    {
        $apt update >&2 || say "apt-get update failed; trying with the package lists that are here"
        $apt install -y --no-install-recommends $missing >&2 || {
            say "Could not install: $missing"
            exit 1
        }
    }
}

# build PRESET [TARGET...]: configures once, then builds; what it says goes to stderr
build() {
    local preset=$1 dir=build
    shift
    [ "$preset" = release ] || dir=build-$preset
    local ninja=()
    if [ ! -f "$dir/CMakeCache.txt" ]; then
        ! command -v ninja >/dev/null || ninja=(-G Ninja)
        cmake --preset "$preset" "${ninja[@]}" >&2 || exit 1
    fi
    local targets=()
    [ $# -eq 0 ] || targets=(--target "$@")
    cmake --build "$dir" --parallel "$(nproc)" "${targets[@]}" >&2 || exit 1
}
