-- Take chunks back whose lease ran out. A chunk that died too often is handed out as poisoned, not tried again.
-- KEYS meta todo lease owner dead counters   ARGV most_deaths token lease_ms   -> {poisoned chunks}, how many others wait again
local status = redis.call('HGET', KEYS[1], 'status')
local poisoned, returned = {}, 0
if status ~= 'running' and status ~= 'paused' then return {poisoned, returned} end
local now = now_ms()
for _, chunk in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[3], chunk)
  redis.call('HDEL', KEYS[4], chunk)
  redis.call('HINCRBY', KEYS[6], 'leases_expired', 1)
  book_open(KEYS[1], KEYS[6], chunk, nil)
  if redis.call('HINCRBY', KEYS[5], chunk, 1) >= tonumber(ARGV[1]) then
    redis.call('HSET', KEYS[4], chunk, ARGV[2])
    redis.call('ZADD', KEYS[3], now + ARGV[3], chunk)
    table.insert(poisoned, chunk)
  else
    put_back(KEYS[1], KEYS[2], chunk)
    returned = returned + 1
  end
end
return {poisoned, returned}
