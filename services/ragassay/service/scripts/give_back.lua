-- Return a chunk that could not be finished to the head of the list. `why` counts it as a death; after too many it is not
-- given out any more: its lease has ended, so that the sweeper fails its rows.
-- KEYS meta todo lease owner dead   ARGV chunk token why most_deaths   -> 1 | 0
if redis.call('HGET', KEYS[4], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[5], 'why:' .. ARGV[1], ARGV[3])
  if redis.call('HINCRBY', KEYS[5], ARGV[1], 1) >= tonumber(ARGV[4]) then
    redis.call('ZADD', KEYS[3], 0, ARGV[1])
    return 1
  end
end
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('LPUSH', KEYS[2], ARGV[1])
return 1
