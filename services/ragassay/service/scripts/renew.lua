-- Keep the lease of a chunk, and the turn to ask its system, for longer; says whether it is still ours and the job still wanted.
-- KEYS meta lease owner   ARGV chunk token lease_ms   -> 1 | 0
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
local status, called = unpack(redis.call('HMGET', KEYS[1], 'status', 'called'))
if status ~= 'running' and status ~= 'paused' then return 0 end
redis.call('ZADD', KEYS[2], now_ms() + ARGV[3], ARGV[1])
local system = string.match(ARGV[1], '^(.*):%d+$')
if string.find(called, ',' .. system .. ',', 1, true) then
  local turn = 'ra:asks:' .. system
  if redis.call('GET', turn) == ARGV[2] then redis.call('PEXPIRE', turn, ARGV[3]) end
end
return 1
