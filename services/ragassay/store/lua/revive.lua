-- Let a failed job go on with the chunks that have no results, or with its report where all have. Its keys stay again.
-- KEYS meta todo key...   ARGV chunk...   -> the status before | false where there is no job
local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'failed' then return status end
for i = 3, #KEYS do redis.call('PERSIST', KEYS[i]) end
redis.call('PERSIST', KEYS[1])
redis.call('HDEL', KEYS[1], 'error', 'turned_ms', 'finalize_begun', 'finalize_failed')
redis.call('HINCRBY', KEYS[1], 'revived', 1)
redis.call('DEL', KEYS[2])
for i = 1, #ARGV do redis.call('RPUSH', KEYS[2], ARGV[i]) end
redis.call('HSET', KEYS[1], 'status', #ARGV > 0 and 'running' or 'finalizing')
return status
