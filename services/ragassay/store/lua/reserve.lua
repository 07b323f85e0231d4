-- The settled reply of a call, or the right to make it, or '!' where the work is no longer wanted: the job was cancelled,
-- or the chunk was given to somebody else. An open mark of another claim means that a worker died in the call.
-- KEYS calls meta owner   ARGV call token chunk   -> reply | '!' | '?' (open before) | false (new, or asked again)
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and string.sub(known, 1, 1) ~= '?' then return known end
if redis.call('HGET', KEYS[2], 'status') == 'cancelled' then return '!' end
if redis.call('HGET', KEYS[3], ARGV[3]) ~= ARGV[2] then return '!' end
local mine = '?' .. ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], mine)
if known and known ~= mine then return '?' end
return false
