-- The settled reply of a call, or the right to make it, or '!' where the work is no longer wanted: the job was cancelled,
-- or the chunk was given to somebody else. An open mark of another claim means that a worker died in the call, and this
-- and its attempts before may have been paid; one of another attempt that the attempt before may. What was reserved then
-- counts as spent. A mark that ends with '0e0 0e0' reserves nothing: it tells of attempts that may have been paid, while the
-- next one isn't made yet. Under a budget: '~' where calls in flight have to end first, '$' where it is reached, 'u' where
-- USD are capped and the price is unknown. Under the budget of its project: 'l' where more of that has to be leased first,
-- 'U' where the price is unknown.
-- KEYS calls meta owner counters   ARGV call token chunk attempt usd tokens   -> reply | '!' | '~' | '$' | 'u' | 'l' | 'U' | false
local calls, meta = KEYS[1], KEYS[2]
local known = redis.call('HGET', calls, ARGV[1])
if known and string.sub(known, 1, 1) ~= '?' then return known end
if redis.call('HGET', meta, 'status') == 'cancelled' then return '!' end
if redis.call('HGET', KEYS[3], ARGV[3]) ~= ARGV[2] then return '!' end
if known then
  local token, attempt, usd, tokens = string.match(known, '^%?(%S+) (%S+) (%S+) (%S+)$')
  if token == ARGV[2] and attempt == ARGV[4] then return false end
  if token == ARGV[2] and ARGV[4] ~= '0' then
    redis.call('HSET', calls, ARGV[1], '?' .. token .. ' ' .. ARGV[4] - 1 .. ' 0e0 0e0')
  else
    redis.call('HDEL', calls, ARGV[1])
  end
  if token ~= ARGV[2] then
    local lost = 1 + tonumber(attempt or 0)
    redis.call('HINCRBY', meta, 'uncertain_calls', lost)
    redis.call('HINCRBY', KEYS[4], 'uncertain_calls', lost)
  end
  if token and usd ~= '0e0' then
    redis.call('HINCRBY', meta, 'in_flight', -1)
    for name, amount in pairs({usd = usd, tokens = tokens}) do
      redis.call('HINCRBYFLOAT', meta, 'open_' .. name, '-' .. amount)
      redis.call('HINCRBYFLOAT', meta, 'spent_' .. name, amount)
    end
  end
end
local wanted = {usd = tonumber(ARGV[5]) or 0, tokens = tonumber(ARGV[6])}
for name, amount in pairs(wanted) do
  local most, spent, open = unpack(redis.call('HMGET', meta, 'most_' .. name, 'spent_' .. name, 'open_' .. name))
  if most and name == 'usd' and ARGV[5] == '' then return 'u' end
  if most and (spent or 0) + (open or 0) + amount > tonumber(most) then
    return tonumber(redis.call('HGET', meta, 'in_flight') or 0) > 0 and '~' or '$'
  end
end
local lease, spent, open = unpack(redis.call('HMGET', meta, 'lease_usd', 'spent_usd', 'open_usd'))
if lease and ARGV[5] == '' then return 'U' end
if lease and (spent or 0) + (open or 0) + wanted.usd > lease + 1e-9 then return 'l' end
local usd = ARGV[5] == '' and '0' or ARGV[5]
redis.call('HINCRBY', meta, 'in_flight', 1)
redis.call('HINCRBYFLOAT', meta, 'open_usd', usd)
redis.call('HINCRBYFLOAT', meta, 'open_tokens', ARGV[6])
redis.call('HSET', calls, ARGV[1], '?' .. ARGV[2] .. ' ' .. ARGV[4] .. ' ' .. usd .. ' ' .. ARGV[6])
return false
