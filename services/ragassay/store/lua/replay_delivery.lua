-- Try a delivery again from the beginning, under the id that it has.
-- KEYS delivery queue   ARGV id kept_s   -> 1 | 0 where it is gone
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], 'status', 'waiting', 'tries', 0, 'next_ms', now)
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
