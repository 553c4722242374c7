#!/usr/bin/env bash
# The first five minutes with dmlgraph: the README has every command below, in this order.
#
#   examples/five_minutes.sh
#
# Installs dmlgraph if it is not installed, then runs a graph, draws it, breaks it, fixes it as the message says, and runs
# it on the real DirectML. Works in a new folder that it names at the end. Needs Python 3.11 or newer, a C++20 compiler,
# and Linux (x86-64), because DirectML is part of Windows.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v dmlgraph >/dev/null; then
    pip install .
fi

folder=$(mktemp -d)
cp -r examples "$folder"
cd "$folder"

says() {  # "says FILE TEXT": FILE has the line TEXT
    grep --quiet --fixed-strings -- "$2" "$1" || { echo "error: '$2' is missing in:" && cat "$1"; exit 1; } >&2
}

# Run a graph.
dmlgraph run examples/ramp.yaml --input x=examples/ramp.x.npy | tee first.txt
says first.txt "[18.   0.   6.5]"

# See its picture.
dmlgraph show examples/ramp.yaml -o ramp.svg
says ramp.svg "</svg>"

# Break it, and read how to fix it.
cp examples/ramp.yaml mine.yaml
sed -i 's/activation_relu/relu/' mine.yaml
if dmlgraph check mine.yaml 2>messages.txt; then
    echo "error: the mistake was not found" >&2
    exit 1
fi
cat messages.txt
says messages.txt "mine.yaml:10:11: error[unknown-operator]: node 'y', field 'op': is not an operator; got relu"
says messages.txt "did you mean 'activation_relu'?"

# Fix it.
sed -i 's/op: relu/op: activation_relu/' mine.yaml
dmlgraph check mine.yaml

# Run it on the real DirectML.
dmlgraph directml install
dmlgraph run mine.yaml --input x=examples/ramp.x.npy --device directml:software | tee second.txt
diff first.txt second.txt

echo "done, in $folder"
