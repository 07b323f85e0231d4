-- Keep what came of a batch in its window, once, and say it of each of its requests. Counts that have expired stay away.
-- KEYS window counts open to_look_at   ARGV prefix batch job figures sampled kept_s (trace status reason)...
--   -> 1, or 0 if another was first
local p, batch, job, figures, sampled, kept_s = unpack(ARGV, 1, 6)
if redis.call('ZREM', KEYS[3], batch) == 0 then return 0 end
redis.call('HSET', KEYS[1], job, figures)
redis.call('EXPIRE', KEYS[1], kept_s)
redis.call('DEL', p .. 'batch:' .. batch)
local hour = string.match(batch, '^(%S+ %S+)')
local before = redis.call('ZSCORE', KEYS[4], hour) or 0
redis.call('ZADD', KEYS[4], math.max(now_ms(), before + 1), hour)
local counted = redis.call('EXISTS', KEYS[2]) == 1
if counted then redis.call('HINCRBY', KEYS[2], 'sampled', sampled) end
for i = 7, #ARGV, 3 do
  local at = p .. 'request:' .. ARGV[i]
  local known = redis.call('GET', at)
  if known then
    local request = cjson.decode(known)
    request.status, request.reason, request.job = ARGV[i + 1], ARGV[i + 2], job
    redis.call('SET', at, cjson.encode(request), 'KEEPTTL')
  end
  if counted then
    redis.call('HINCRBY', KEYS[2], 'evaluating', -1)
    redis.call('HINCRBY', KEYS[2], ARGV[i + 1], 1)
  end
end
return 1
