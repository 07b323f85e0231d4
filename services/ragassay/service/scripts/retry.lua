-- Let a job that has ended work again on chunks of it: those of which rows failed, and those without results. The first lose
-- their done-mark and `rows` of theirs count as not done; their results stay until others are kept. The report is that of the
-- rows that are done until the next one is made. Nothing where the job has ended once more since the caller looked.
-- KEYS meta todo done tries lease owner dead active report partial gates row...   ARGV changed_ms rows chunk...   -> the status before | 'stale' | false where there is no job
local status, changed_ms = unpack(redis.call('HMGET', KEYS[1], 'status', 'changed_ms'))
if status ~= 'finished' and status ~= 'failed' then return status end
if (changed_ms or '') ~= ARGV[1] then return 'stale' end
redis.call('SADD', KEYS[8], string.match(KEYS[1], '{(.*)}'))
for i = 12, #KEYS do redis.call('PERSIST', KEYS[i]) end
redis.call('PERSIST', KEYS[1])
redis.call('DEL', KEYS[2], KEYS[5], KEYS[6], KEYS[7], KEYS[11])
if redis.call('EXISTS', KEYS[9]) == 1 then redis.call('RENAME', KEYS[9], KEYS[10]) end
for i = 3, #ARGV do
  redis.call('RPUSH', KEYS[2], ARGV[i])
  if redis.call('SREM', KEYS[3], ARGV[i]) == 1 then redis.call('HINCRBY', KEYS[4], ARGV[i], 1) end
end
redis.call('HINCRBY', KEYS[1], 'rows_done', 0 - ARGV[2])
redis.call('HINCRBY', KEYS[1], 'rows_failed', 0 - ARGV[2])
redis.call('HINCRBY', KEYS[1], 'retries', 1)
redis.call('HDEL', KEYS[1], 'error', 'changed_ms', 'alerts', 'finalize_begun', 'given_up', 'waiting',
  'waiting_since_ms', 'probes', 'next_ms', 'owed')
redis.call('HSET', KEYS[1], 'status', #ARGV > 2 and 'running' or 'finalizing')
return status
