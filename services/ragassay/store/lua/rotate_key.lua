-- Give a key that is not revoked a new secret; the one before stays good until a time.
-- KEYS key   ARGV digest overlap_ms   -> 1 | 0 where there is no such key
if redis.call('HEXISTS', KEYS[1], 'digest') == 0 or redis.call('HEXISTS', KEYS[1], 'revoked_ms') == 1 then return 0 end
local t = redis.call('TIME')
local until_ms = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2]
redis.call('HSET', KEYS[1], 'previous', redis.call('HGET', KEYS[1], 'digest'), 'previous_ms', string.format('%.0f', until_ms))
redis.call('HSET', KEYS[1], 'digest', ARGV[1])
return 1
