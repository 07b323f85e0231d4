-- Keep the lease of a chunk for longer; says whether it is still ours and the job still wanted.
-- KEYS meta lease owner   ARGV chunk token lease_ms   -> 1 | 0
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'running' and status ~= 'paused' then return 0 end
redis.call('ZADD', KEYS[2], now_ms() + ARGV[3], ARGV[1])
return 1
