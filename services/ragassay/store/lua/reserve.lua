-- The settled reply of a call, or the right to make it, or '!' where the work is no longer wanted: the job was cancelled,
-- or the chunk was given to somebody else. An open mark of another claim means that a worker died in the call; what it
-- had reserved counts as spent. Under a budget: '~' where calls in flight have to end first, '$' where it is reached.
-- KEYS calls meta owner   ARGV call token chunk usd tokens   -> reply | '!' | '~' | '$' | false (new, or asked again)
local calls, meta = KEYS[1], KEYS[2]
local known = redis.call('HGET', calls, ARGV[1])
if known and string.sub(known, 1, 1) ~= '?' then return known end
if redis.call('HGET', meta, 'status') == 'cancelled' then return '!' end
if redis.call('HGET', KEYS[3], ARGV[3]) ~= ARGV[2] then return '!' end
if known then
  local token, usd, tokens = string.match(known, '^%?(%S+) (%S+) (%S+)$')
  if token == ARGV[2] then return false end
  redis.call('HDEL', calls, ARGV[1])
  redis.call('HINCRBY', meta, 'uncertain_calls', 1)
  redis.call('HINCRBY', meta, 'in_flight', -1)
  for name, amount in pairs({usd = usd, tokens = tokens}) do
    redis.call('HINCRBYFLOAT', meta, 'open_' .. name, '-' .. amount)
    redis.call('HINCRBYFLOAT', meta, 'spent_' .. name, amount)
  end
end
for i, name in ipairs({'usd', 'tokens'}) do
  local most, spent, open = unpack(redis.call('HMGET', meta, 'most_' .. name, 'spent_' .. name, 'open_' .. name))
  if most and (spent or 0) + (open or 0) + ARGV[3 + i] > tonumber(most) then
    return tonumber(redis.call('HGET', meta, 'in_flight') or 0) > 0 and '~' or '$'
  end
end
redis.call('HINCRBY', meta, 'in_flight', 1)
redis.call('HINCRBYFLOAT', meta, 'open_usd', ARGV[4])
redis.call('HINCRBYFLOAT', meta, 'open_tokens', ARGV[5])
redis.call('HSET', calls, ARGV[1], '?' .. ARGV[2] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
return false
