#!/usr/bin/env bash
# Sets up, builds, trains a GPT of about 3 M parameters on a dictionary's English for a few minutes, and resumes it.
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${STEPS:-1000}

bash tools/setup.sh dict-gcide
make --no-print-directory build

mkdir -p demo
if [[ ! -s demo/gcide.txt ]]; then
  zcat "$(dpkg -L dict-gcide | grep '\.dict\.dz$')" >demo/gcide.txt.part
  mv demo/gcide.txt.part demo/gcide.txt
fi

train=(build/release/lockstep train --config examples/demo/ds_config.json --model gpt2-demo --data demo/gcide.txt
  --ranks 2 --eval-fraction 0.01 --output demo/run)

echo
echo "examples/demo/ds_config.json:"
cat examples/demo/ds_config.json
echo
echo "\$ ${train[*]} --steps $steps"
rm -rf demo/run
"${train[@]}" --steps "$steps"

echo
echo "Twenty more steps, resumed from the checkpoint:"
echo "\$ ${train[*]} --steps $((steps + 20)) --resume"
"${train[@]}" --steps "$((steps + 20))" --resume
echo
echo "held-out loss, nats per byte: $(grep -o '"eval_loss": *[0-9.]*' demo/run/metrics.jsonl | tail -n 2 | grep -o '[0-9.]*$' | paste -sd ' ')"
