# Two good nightly runs, then a broken version: one verified alert, and the cost of the three runs.
#
# Start the service and the system under test, which breaks at its fifth question, from the root of this repository:
#   RAGASSAY_SYSTEMS=examples/regression/systems.yaml RAGASSAY_OUTGOING_ALLOWED=127.0.0.1 ragassay serve
#   python examples/rag_server.py --port 8001 --wrong-from 5
# The receiver needs: pip install standardwebhooks
set -e
server=http://127.0.0.1:8400
curl -sS -T examples/regression/questions.jsonl -H 'Content-Type: application/x-ndjson' $server/v1/datasets/questions -o version.json
curl -sS $server/v1/webhooks -H 'Content-Type: application/json' \
  -d '{"url": "http://127.0.0.1:9000/", "kinds": ["regression"]}' -o webhook.json
python examples/alert_receiver.py --port 9000 webhook.json > received.jsonl &
trap 'kill $!' EXIT
ragassay schedule add examples/regression/schedule.yaml --server $server
for run in 1 2 3; do
  ragassay schedule run walk --server $server
  until [ "$(ragassay schedule show walk --server $server | grep -c finished)" = $run ]; do sleep 0.5; done
done
until grep -q regression received.jsonl; do sleep 0.5; done
cat received.jsonl
ragassay schedule show walk --server $server
ragassay cost --server $server --by day,system
