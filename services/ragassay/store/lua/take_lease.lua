-- Let a job spend what was leased to it, unless the lease was ended since; '': its project has no budget any more.
-- KEYS meta   ARGV number upto   -> 1 | 0
local known, number = unpack(redis.call('HMGET', KEYS[1], 'lease_usd', 'lease_number'))
if not known or (number or '0') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('HDEL', KEYS[1], 'lease_usd') end
if tonumber(ARGV[2]) <= tonumber(known) then return 0 end
redis.call('HSET', KEYS[1], 'lease_usd', ARGV[2])
return 1
