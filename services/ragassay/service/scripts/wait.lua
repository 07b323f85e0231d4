-- Return a chunk whose provider fails, and give none out until the next probe; or, when the provider has failed for too
-- long, give it up for the whole job: the caller keeps its chunk then.
-- KEYS meta todo lease owner   ARGV chunk token why wait_ms give_up_ms   -> 'waiting' | 'given up' | 'stale'
if redis.call('HGET', KEYS[4], ARGV[1]) ~= ARGV[2] then return 'stale' end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HEXISTS', KEYS[1], 'given_up') == 1 then return 'given up' end
local since = tonumber(redis.call('HGET', KEYS[1], 'waiting_since_ms') or now)
redis.call('HSET', KEYS[1], 'waiting', ARGV[3], 'waiting_since_ms', since)
local left = since + tonumber(ARGV[5]) - now
if left <= 0 then
  redis.call('HSET', KEYS[1], 'given_up', ARGV[3])
  redis.call('HDEL', KEYS[1], 'waiting', 'waiting_since_ms', 'probes', 'next_ms')
  return 'given up'
end
redis.call('HINCRBY', KEYS[1], 'probes', 1)
redis.call('HSET', KEYS[1], 'next_ms', now + math.min(tonumber(ARGV[4]), left))
redis.call('HDEL', KEYS[1], 'sent_ms') -- so that a message is sent for the probe
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('LPUSH', KEYS[2], ARGV[1])
return 'waiting'
