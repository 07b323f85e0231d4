-- Give out no chunk any more and say why, unless somebody has resumed the job since the caller claimed its chunk.
-- KEYS meta   ARGV why resumes   -> 1 | 0
if redis.call('HGET', KEYS[1], 'status') ~= 'running' then return 0 end
if (redis.call('HGET', KEYS[1], 'resumes') or '0') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'status', 'paused', 'error', ARGV[1])
return 1
