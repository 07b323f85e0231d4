-- The settled reply of a call, or the right to make it. An open mark of another claim means that a worker died in it.
-- KEYS calls   ARGV call token   -> reply | '?' (open before) | false (new, or asked again by the same claim)
local mine = '?' .. ARGV[2]
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and string.sub(known, 1, 1) ~= '?' then return known end
redis.call('HSET', KEYS[1], ARGV[1], mine)
if known and known ~= mine then return '?' end
return false
