-- All rows that an hour had were looked at: it need not be looked at again, unless it has got further ones since.
-- KEYS to_look_at   ARGV hour score   -> 1, or 0 if it has
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
