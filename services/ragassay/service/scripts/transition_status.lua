-- Change a job's status, if it is one of those allowed; an error is kept with it.
-- KEYS meta counters   ARGV to error from...   -> the status before | false where there is no job
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return false end
for i = 3, #ARGV do
  if status == ARGV[i] then
    local t = redis.call('TIME')
    redis.call('HSET', KEYS[1], 'status', ARGV[1], 'turned_ms', t[1] * 1000 + math.floor(t[2] / 1000))
    local ended = ARGV[1] == 'finished' or ARGV[1] == 'failed' or ARGV[1] == 'cancelled'
    if ended then redis.call('HINCRBY', KEYS[2], 'jobs_ended\31' .. ARGV[1], 1) end
    if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'error', ARGV[2]) end
  end
end
return status
