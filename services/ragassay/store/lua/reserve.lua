-- The settled reply of a call, or the right to make it. An open mark from before means that a worker died in it.
-- KEYS calls   ARGV call   -> reply | '?' (open before) | false (new)
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and known ~= '?' then return known end
redis.call('HSET', KEYS[1], ARGV[1], '?')
return known
