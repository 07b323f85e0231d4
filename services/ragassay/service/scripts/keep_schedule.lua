-- Keep a schedule, or delete it, where nobody has changed it meanwhile.
-- KEYS schedules due runs   ARGV name old new next_ms   -> 1, or 0 where it is not what `old` says ('': there is none)
-- new '': delete it; next_ms 'same': leave it; '': it is not due
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('DEL', KEYS[3])
  return 1
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
if ARGV[4] == '' then redis.call('ZREM', KEYS[2], ARGV[1])
elseif ARGV[4] ~= 'same' then redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1]) end
return 1
