-- Take chunks back whose lease ran out. A chunk that died too often is handed out as poisoned, not tried again.
-- KEYS meta todo lease owner dead counters   ARGV most_deaths token lease_ms   -> {poisoned chunks}, {all whose lease ran out}
local status = redis.call('HGET', KEYS[1], 'status')
local poisoned, expired = {}, {}
if status ~= 'running' and status ~= 'paused' then return {poisoned, expired} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, chunk in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  table.insert(expired, chunk)
  redis.call('ZREM', KEYS[3], chunk)
  redis.call('HDEL', KEYS[4], chunk)
  redis.call('HINCRBY', KEYS[6], 'leases_expired', 1)
  if redis.call('HINCRBY', KEYS[5], chunk, 1) >= tonumber(ARGV[1]) then
    redis.call('HSET', KEYS[4], chunk, ARGV[2])
    redis.call('ZADD', KEYS[3], now + ARGV[3], chunk)
    table.insert(poisoned, chunk)
  else
    redis.call('LPUSH', KEYS[2], chunk)
  end
end
return {poisoned, expired}
