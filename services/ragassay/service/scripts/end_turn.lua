-- Others may ask a system that is called; nothing where the turn was lost.
-- KEYS asks waiting   ARGV token   -> {jobs that have waited, the longest first}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {} end
local jobs = redis.call('ZRANGE', KEYS[2], 0, -1)
redis.call('DEL', KEYS[1], KEYS[2])
return jobs
