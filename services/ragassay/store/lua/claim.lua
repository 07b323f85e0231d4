-- Give the next chunk of a job to one worker, for the length of a lease.
-- KEYS meta todo lease owner   ARGV token lease_ms   -> chunk | false
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'queued' and status ~= 'running' then return false end
if redis.call('HGET', KEYS[1], 'one_by_one') == '1' and redis.call('ZCARD', KEYS[3]) > 0 then return false end
local chunk = redis.call('LPOP', KEYS[2])
if not chunk then return false end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[4], chunk, ARGV[1])
redis.call('ZADD', KEYS[3], now + ARGV[2], chunk)
redis.call('HSET', KEYS[1], 'claimed_ms', now)
if status == 'queued' then redis.call('HSET', KEYS[1], 'status', 'running', 'started_ms', now) end
return chunk
