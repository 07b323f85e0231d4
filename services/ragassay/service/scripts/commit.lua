-- Store a chunk's results once. The done-mark comes last, so that what can fail has happened before it.
-- KEYS meta lease owner done out texts counters column...   ARGV chunk token blob rows failed texts number column...   -> 'stale' | 'kept' | 'last'
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 'stale' end
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'running' and status ~= 'paused' then return 'stale' end -- it has failed, or was cancelled
redis.call('SET', KEYS[5], ARGV[3])
local chunk_size = redis.call('HGET', KEYS[1], 'chunk_size')
redis.call('HSET', KEYS[6], ARGV[1], ARGV[6])
for i = 8, #KEYS do redis.call('SETRANGE', KEYS[i], ARGV[7] * chunk_size * 8, ARGV[i]) end
redis.call('HINCRBY', KEYS[1], 'rows_done', ARGV[4])
redis.call('HINCRBY', KEYS[1], 'rows_failed', ARGV[5])
redis.call('HINCRBY', KEYS[7], 'chunks', 1)
redis.call('HINCRBY', KEYS[7], 'rows', ARGV[4])
redis.call('HINCRBY', KEYS[7], 'rows_failed', ARGV[5])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[4], ARGV[1])
if redis.call('SCARD', KEYS[4]) == tonumber(redis.call('HGET', KEYS[1], 'chunks')) then
  redis.call('HSET', KEYS[1], 'status', 'finalizing')
  return 'last'
end
return 'kept'
