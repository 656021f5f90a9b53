#!/bin/sh
# Copies the tree that `make build` has made, or removes what it copied. Files belong to whoever runs it, and everybody may read them.
# Usage: install.sh install DIST PLACE | install.sh uninstall PLACE
#
# PLACE/share/ferrule/installed lists what was made: "f FILE" (also links), "d DIRECTORY" (only those that were not there).
set -eu
umask 022
list=share/ferrule/installed

uninstall() {
  [ -f "$1/$list" ] || { echo "nothing is installed in $1 ($list is missing)" >&2; return 1; }
  # A directory comes before what is in it, so they are removed in reverse order. Those that hold other files stay.
  sort -r "$1/$list" | while read -r kind path; do
    case $kind:$path in
      *..*) ;;
      f:*) rm -f "$1/$path" "$1/$path.new" ;;
      d:.) rmdir "$1" 2>/dev/null || true ;;
      d:*) [ ! -d "$1/$path" ] || rmdir "$1/$path" 2>/dev/null || true ;;
    esac
  done
}

# The list is there before the first file, so that `uninstall` also removes what an interrupted installation has left.
install_tree() {
  from=$1 place=$2
  new=$(mktemp)
  trap 'rm -f "$new"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  list_tree >"$new"
  if [ -f "$place/$list" ]; then
    # What an older version had and this one has not.
    sed -n 's/^f //p' "$place/$list" | while read -r path; do [ -e "$from/$path" ] || rm -f "$place/$path"; done
  fi
  install -d -m 755 "$place/${list%/*}"
  install -m 644 "$new" "$place/$list"
  (cd "$from" && find . -type d) | while read -r path; do install -d -m 755 "$place/$path"; done
  (cd "$from" && find . -type f -o -type l) | while read -r path; do
    # A new file under the name, not new bytes in the old one, which a running program may have mapped.
    if [ -L "$from/$path" ]; then
      ln -sfn "$(readlink "$from/$path")" "$place/$path"
    else
      mode=644
      [ ! -x "$from/$path" ] || mode=755
      install -m "$mode" "$from/$path" "$place/$path.new"
      mv -f "$place/$path.new" "$place/$path"
    fi
  done
}

list_tree() {
  (cd "$from" && find . -type d | sort) | while read -r path; do
    # An older installation made it.
    if [ ! -d "$place/$path" ] || grep -qxF "d ${path#./}" "$place/$list" 2>/dev/null; then echo "d ${path#./}"; fi
  done
  (cd "$from" && find . -type f -o -type l) | sed 's,^\./,f ,'
  echo "f $list"
}

case $1 in
  install)
    [ -x "$2/bin/mpiexec" ] || { echo "there is nothing to install in $2: make build first" >&2; exit 1; }
    install_tree "$2" "$3"
    ;;
  uninstall) uninstall "$2" ;;
  *) exit 2 ;;
esac
