-- Return a chunk that could not be worked on to the head of the list; `deaths` counts it against the chunk.
-- KEYS meta todo lease owner dead   ARGV chunk token counts   -> 1 | 0
if redis.call('HGET', KEYS[4], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if ARGV[3] == '1' then redis.call('HINCRBY', KEYS[5], ARGV[1], 1) end
redis.call('LPUSH', KEYS[2], ARGV[1])
return 1
