-- Try deliveries of a webhook again from the beginning, under the ids that they have; those that are gone are left out.
-- KEYS queue deliveries delivery...   ARGV kept_s id...   -> {id, ...}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local replayed = {}
for i = 3, #KEYS do
  local id = ARGV[i - 1]
  if redis.call('ZSCORE', KEYS[2], id) and redis.call('EXISTS', KEYS[i]) == 1 then
    redis.call('HSET', KEYS[i], 'status', 'waiting', 'tries', 0, 'next_ms', now)
    redis.call('EXPIRE', KEYS[i], ARGV[1])
    redis.call('ZADD', KEYS[1], now, id)
    table.insert(replayed, id)
  end
end
if #replayed > 0 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return replayed
