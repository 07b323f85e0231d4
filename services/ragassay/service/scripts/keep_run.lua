-- Write what became of a run, where nobody has done so meanwhile, and when it is to be looked at again.
-- KEYS runs open   ARGV name slot_ms old new look_ms ('': never again)   -> 1, or 0 where it is not what `old` says
if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
if ARGV[5] == '' then redis.call('ZREM', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
else redis.call('ZADD', KEYS[2], ARGV[5], ARGV[1] .. ' ' .. ARGV[2]) end
return 1
