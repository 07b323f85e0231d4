-- Write down what became of a try. A failed one is due again after `wait_ms`; the last one, or a receiver that is gone, ends
-- it. A webhook whose tries failed so often in a row is disabled; tries of the same time count once, so that many notices
-- do not disable it in a minute. `email` is never disabled: nobody could enable it.
-- KEYS webhook queue delivery   ARGV id token outcome http_status error wait_ms most_tries
--   -> 'stale' | 'delivered' | 'waiting' | 'failed' | 'disabled'
if redis.call('HGET', KEYS[1], 'lease_token') ~= ARGV[2] then return 'stale' end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, key in ipairs({KEYS[1], KEYS[3]}) do
  if key == KEYS[1] or redis.call('EXISTS', key) == 1 then
    redis.call('HSET', key, 'last_ms', now, 'last_status', ARGV[4], 'last_error', ARGV[5])
  end
end
redis.call('ZREM', KEYS[2], ARGV[1])
local tries = tonumber(redis.call('HGET', KEYS[3], 'tries'))
if ARGV[3] == 'delivered' then
  redis.call('HSET', KEYS[1], 'failures', 0)
  if tries then redis.call('HSET', KEYS[3], 'status', 'delivered') end
  redis.call('HINCRBY', 'ra:counters', 'deliveries\31delivered', 1)
  return 'delivered'
end
redis.call('HDEL', KEYS[1], 'lease_token', 'lease_ms') -- what waits would fail too: others have their turn first
local failures = tonumber(redis.call('HGET', KEYS[1], 'failures') or 0)
if tries and tries > failures then
  failures = failures + 1
  redis.call('HSET', KEYS[1], 'failures', failures)
end
local ends = ARGV[3] == 'gone' or not tries or tries >= tonumber(ARGV[7])
if ends then
  if tries then redis.call('HSET', KEYS[3], 'status', 'failed') end
  redis.call('HINCRBY', 'ra:counters', 'deliveries\31failed', 1)
end
if not ends then
  local due = now + ARGV[6]
  redis.call('ZADD', KEYS[2], due, ARGV[1])
  redis.call('HSET', KEYS[3], 'next_ms', due)
end
local why = ARGV[3] == 'gone' and 'it answered 410 Gone'
  or failures >= tonumber(ARGV[7]) and ARGV[7] .. ' tries failed in a row'
if why and redis.call('HGET', KEYS[1], 'format') then
  redis.call('HSET', KEYS[1], 'enabled', 0, 'disabled', why)
  return 'disabled'
end
return ends and 'failed' or 'waiting'
