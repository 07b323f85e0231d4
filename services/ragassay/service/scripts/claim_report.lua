-- Have one worker make a job's report, for the length of a lease.
-- KEYS meta lease owner   ARGV token lease_ms   -> 1 | 0
if redis.call('HGET', KEYS[1], 'status') ~= 'finalizing' then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if tonumber(redis.call('ZSCORE', KEYS[2], 'report') or 0) > now then return 0 end
redis.call('HSET', KEYS[3], 'report', ARGV[1])
redis.call('ZADD', KEYS[2], now + ARGV[2], 'report')
return 1
