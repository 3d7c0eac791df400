#!/bin/sh
# Finds a Python that is new enough and hands over to bootstrap.py, which does the work.
# Only this step is in shell, because it is the one that has to run without Python.
set -eu
cd "$(dirname "$0")/.."

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
    candidates=$PYTHON
elif [ -x .venv/bin/python ]; then
    # Already checked when .venv was made. It knows the Python that it was made from.
    exec .venv/bin/python tools/bootstrap.py "$@"
else
    candidates="python3 python3.13 python3.12 python3.11 python3.14"
fi

for candidate in $candidates; do
    if new_enough "$candidate"; then
        exec "$candidate" tools/bootstrap.py "$@"
    fi
done

found=$(for candidate in $candidates; do "$candidate" --version 2>/dev/null || true; done)
as_root=$([ "$(id -u)" = 0 ] || echo "sudo ")
if command -v apt-get >/dev/null; then
    advice="${as_root}apt-get install python3.11 python3.11-venv"
elif command -v dnf >/dev/null; then
    advice="${as_root}dnf install python3.11"
elif command -v apk >/dev/null; then
    advice="${as_root}apk add python3"
elif command -v brew >/dev/null; then
    advice="brew install python@3.13"
else
    advice="see https://www.python.org/downloads/"
fi
echo "sits needs Python 3.11 or newer (tried: $candidates; found: ${found:-none}): $advice," \
    "or name one: make PYTHON=/path/to/python3.11 ..." >&2
exit 1
