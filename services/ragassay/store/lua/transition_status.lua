-- Change a job's status, if it is one of those allowed.
-- KEYS meta   ARGV to from...   -> the status before | false where there is no job
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return false end
for i = 2, #ARGV do
  if status == ARGV[i] then
    local t = redis.call('TIME')
    redis.call('HSET', KEYS[1], 'status', ARGV[1], 'turned_ms', t[1] * 1000 + math.floor(t[2] / 1000))
  end
end
return status
