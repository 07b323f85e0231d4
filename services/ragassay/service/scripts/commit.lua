-- Store a chunk's results once. The done-mark comes last, so that what can fail has happened before it.
-- KEYS meta lease owner done results texts columns counters   ARGV chunk token field results rows failed texts_field texts (place part)...   -> 'stale' | 'kept' | 'last'
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 'stale' end
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'running' and status ~= 'paused' then return 'stale' end -- it has failed, or was cancelled
redis.call('HSET', KEYS[5], ARGV[3], ARGV[4])
redis.call('HSET', KEYS[6], ARGV[7], ARGV[8])
for i = 9, #ARGV, 2 do redis.call('SETRANGE', KEYS[7], ARGV[i], ARGV[i + 1]) end
redis.call('HINCRBY', KEYS[1], 'rows_done', ARGV[5])
redis.call('HINCRBY', KEYS[1], 'rows_failed', ARGV[6])
redis.call('HINCRBY', KEYS[8], 'chunks', 1)
redis.call('HINCRBY', KEYS[8], 'rows', ARGV[5])
redis.call('HINCRBY', KEYS[8], 'rows_failed', ARGV[6])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[4], ARGV[1])
if redis.call('SCARD', KEYS[4]) == tonumber(redis.call('HGET', KEYS[1], 'chunks')) then
  redis.call('HSET', KEYS[1], 'status', 'finalizing')
  return 'last'
end
return 'kept'
