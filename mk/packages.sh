# Installing what is missing, by apt-get, dnf or zypper. For scripts that source this file; `here` is its folder.
#   need PROGRAM PACKAGE     notes the package, by its name on Debian, if the program is not in PATH
#   missing PACKAGE…         notes packages
#   install_missing          prints what it will do, does it, and leaves nothing else behind, however it is interrupted
# NO_DEPS=1: prints what is missing and installs nothing.

packages=
rust=
RUSTUP_VERSION=1.29.0
RUSTUP_SHA256=4acc9acc76d5079515b46346a485974457b5a79893cfb01112423c89aeb5aa10
# While packages are installed this file keeps them from starting services. (The variable is for tests.)
policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}
policy_is_ours=
scratch=
PATH=$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin

missing() { packages="$packages $*"; }
need() { command -v "$1" >/dev/null 2>&1 || missing "$2"; }
need_rust() {
  command -v cargo >/dev/null 2>&1 && return
  rust=1
  need curl curl
  # curl only recommends it.
  [ -e /etc/ssl/certs/ca-certificates.crt ] || missing ca-certificates
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

clean_up() {
  [ -z "$policy_is_ours" ] || as_root rm -f "$policy"
  [ -z "$scratch" ] || rm -rf "$scratch"
}

# The program that installs packages here, and nothing where it isn't known.
manager() {
  for program in apt-get dnf zypper; do
    if command -v "$program" >/dev/null 2>&1; then echo "$program"; return; fi
  done
}

# The same packages by the names that they have here. Those without a name are in `nameless`.
use_names_of_this_system() {
  nameless=
  case $(manager) in
    dnf) column=2 ;;
    zypper) column=3 ;;
    *) return 0 ;;
  esac
  debian=$packages packages=
  for package in $debian; do
    name=$package
    while read -r line; do
      # shellcheck disable=SC2086 # the fields of a line
      set -- $line
      [ "${1:-}" != "$package" ] || eval "name=\$$column"
    done <"$here/packages.txt"
    case " $packages " in
      *" $name "*) ;;
      *) if [ "$name" = - ]; then nameless="$nameless $package"; else packages="$packages $name"; fi ;;
    esac
  done
}

install_missing() {
  [ -n "$packages$rust" ] || return 0
  use_names_of_this_system
  [ -z "$nameless" ] || echo "please install what these packages of Debian hold, no package of this system is known:$nameless"
  [ -n "$packages$rust" ] || return 0
  if [ -n "${NO_DEPS:-}" ]; then
    echo "missing:$packages${rust:+ Rust (rustup)}; NO_DEPS is set, so nothing is installed"
    return 0
  fi
  say_what
  # dash runs no EXIT trap when a signal ends it.
  trap clean_up EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  [ -z "$packages" ] || install_packages
  [ -z "$rust" ] || install_rust
}

say_what() {
  echo "This will be installed (NO_DEPS=1: nothing):"
  if [ -n "$packages" ]; then
    [ -n "$(manager)" ] || {
      echo "  this machine has no apt-get, dnf or zypper; please install what these packages of Debian hold:$packages" >&2
      exit 1
    }
    [ "$(id -u)" = 0 ] && by= || by=", by sudo"
    echo "  packages of the distribution$by; no service is started:$packages"
  fi
  [ -z "$rust" ] || echo "  Rust, by rustup $RUSTUP_VERSION, into ~/.cargo and ~/.rustup; no shell profile is changed"
}

install_packages() {
  # One after the other: the first to finish would remove the policy of the others.
  exec 9<"$here/packages.sh"
  flock 9
  # On Fedora and openSUSE the installation of a package starts no service.
  if [ "$(manager)" = apt-get ]; then
    forbid_services
    as_root apt-get -o DPkg::Lock::Timeout=600 update -q >/dev/null 9<&-
  fi
  # If one package conflicts with what is there, the others are installed all the same. Whatever needs it says so itself.
  # shellcheck disable=SC2086
  install_by_manager $packages || for package in $packages; do
    install_by_manager "$package" || echo "can't be installed: $package"
  done
  as_root rm -f ${policy_is_ours:+"$policy"}
  policy_is_ours=
  exec 9<&-
}

install_by_manager() {
  case $(manager) in
    apt-get) as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "$@" ;;
    dnf) as_root dnf install -y -q --setopt=install_weak_deps=False "$@" ;;
    zypper) as_root zypper --non-interactive --quiet install --no-recommends "$@" ;;
  esac >/dev/null 9<&-
}

# A policy of the machine stays. Ours holds for as long as this process lives: SIGKILL may leave the file, which then removes itself when it is asked.
forbid_services() {
  if [ -e "$policy" ] && ! grep -q 'Made by packages.sh' "$policy"; then return 0; fi
  policy_is_ours=1
  since=$(cut -d' ' -f22 "/proc/$$/stat")
  as_root tee "$policy" >/dev/null <<END
#!/bin/sh
# Made by packages.sh of Ferrule: no service starts while process $$ installs packages.
[ "\$(cut -d' ' -f22 /proc/$$/stat 2>/dev/null)" = $since ] && exit 101
rm -f "\$0"
END
  as_root chmod 755 "$policy"
}

install_rust() {
  [ "$(uname -m)" = x86_64 ] || { echo "please install Rust: there is a checksum of rustup for x86-64 only" >&2; exit 1; }
  scratch=$(mktemp -d)
  curl -sSf --proto =https --tlsv1.2 -o "$scratch/rustup-init" \
    "https://static.rust-lang.org/rustup/archive/$RUSTUP_VERSION/x86_64-unknown-linux-gnu/rustup-init"
  echo "$RUSTUP_SHA256  $scratch/rustup-init" | sha256sum -c --status || { echo "rustup-init: wrong checksum; nothing was run" >&2; exit 1; }
  chmod 755 "$scratch/rustup-init"
  "$scratch/rustup-init" -y -q --no-modify-path --default-toolchain none >/dev/null
  # The version that rust-toolchain.toml names.
  (cd "$here" && "$HOME/.cargo/bin/rustup" -q toolchain install --profile minimal)
}
