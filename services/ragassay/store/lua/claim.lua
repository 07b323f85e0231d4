-- Give the next chunk of a job to one worker, for the length of a lease. While the job waits for its provider, a chunk is
-- given out only when the next probe is due and nobody else has one. A job that asks a provider never has all workers:
-- while its calls hang, one is left for jobs that need none.
-- KEYS meta todo lease owner   ARGV token lease_ms most_of_a_provider   -> chunk | false
local status, one_by_one, next_ms, set_ms, provider =
  unpack(redis.call('HMGET', KEYS[1], 'status', 'one_by_one', 'next_ms', 'next_set_ms', 'provider'))
if status ~= 'queued' and status ~= 'running' then return false end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if next_ms and now < tonumber(next_ms) and now >= tonumber(set_ms) then return false end -- else the clock was set back
if (one_by_one == '1' or next_ms) and redis.call('ZCARD', KEYS[3]) > 0 then return false end
if provider == '1' and redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[3]) then return false end
local chunk = redis.call('LPOP', KEYS[2])
if not chunk then return false end
redis.call('HSET', KEYS[4], chunk, ARGV[1])
redis.call('ZADD', KEYS[3], now + ARGV[2], chunk)
redis.call('HSET', KEYS[1], 'claimed_ms', now)
if status == 'queued' then redis.call('HSET', KEYS[1], 'status', 'running', 'started_ms', now) end
return chunk
