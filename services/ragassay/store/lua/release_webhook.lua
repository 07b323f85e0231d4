-- Give a webhook's lease back, unless somebody else has it by now.
-- KEYS webhook   ARGV token   -> 1 | 0
if redis.call('HGET', KEYS[1], 'lease_token') ~= ARGV[1] then return 0 end
return redis.call('HDEL', KEYS[1], 'lease_token', 'lease_ms')
