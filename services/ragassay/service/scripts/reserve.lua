-- Reserve what a call may take, on the account of its job and on that of its project in this month, or say why not:
-- '!' the work is not wanted any more: the job was cancelled, or the chunk was given to another worker
-- '~' calls in flight have to end first    '$' the budget is reached
-- 'u' USD of the job, 'U' of the project, are capped and the call has no known price
-- '=' another call with the same content is in flight    '@...' the reply to another call with the same content
-- An open mark of another claim, or of an earlier attempt, is a request with an unknown outcome: its estimate is booked as spent.
-- KEYS calls meta owner counters cap month contents   ARGV call token chunk attempt usd tokens content kept_s   -> reply | one of these | false
local calls, meta, month = KEYS[1], KEYS[2], KEYS[6]
local known = redis.call('HGET', calls, ARGV[1])
if known and string.sub(known, 1, 1) ~= '?' then return known end
if redis.call('HGET', meta, 'status') == 'cancelled' then return '!' end
if redis.call('HGET', KEYS[3], ARGV[3]) ~= ARGV[2] then return '!' end
if known then
  local token, attempt, usd, tokens, its_month = string.match(known, '^%?(%S+) (%S+) (%S+) (%S+) (%S+)$')
  if token == ARGV[2] and attempt == ARGV[4] then return false end
  redis.call('HDEL', calls, ARGV[1])
  for _, account in ipairs({meta, its_month}) do
    redis.call('HINCRBY', account, 'in_flight', -1)
    redis.call('HINCRBYFLOAT', account, 'open_usd', '-' .. usd)
    redis.call('HINCRBYFLOAT', account, 'spent_usd', usd)
    redis.call('HINCRBYFLOAT', account, 'unknown_usd', usd)
  end
  redis.call('HINCRBYFLOAT', meta, 'open_tokens', '-' .. tokens)
  redis.call('HINCRBYFLOAT', meta, 'spent_tokens', tokens)
  redis.call('HINCRBY', meta, 'uncertain_calls', 1)
  redis.call('HINCRBY', KEYS[4], 'uncertain_calls', 1)
end
if ARGV[7] ~= '' then
  local chunk, call = string.match(redis.call('HGET', KEYS[7], ARGV[7]) or '', '^(.-)\31(.*)$')
  if chunk and not (chunk == ARGV[3] and call == ARGV[1]) then
    local other = redis.call('HGET', string.sub(calls, 1, #calls - #ARGV[3]) .. chunk, call)
    if other and string.sub(other, 1, 1) ~= '?' then return '@' .. other end
    if other and string.match(other, '^%?(%S+)') == redis.call('HGET', KEYS[3], chunk) then return '=' end
  end
end
local price = ARGV[5] == '' and '0' or ARGV[5]
local limits = {
  {meta, redis.call('HGET', meta, 'most_usd'), 'usd', price},
  {meta, redis.call('HGET', meta, 'most_tokens'), 'tokens', ARGV[6]},
  {month, redis.call('GET', KEYS[5]), 'usd', price},
}
for _, limit in ipairs(limits) do
  local account, most, unit, wanted = unpack(limit)
  if most then
    if unit == 'usd' and ARGV[5] == '' then return account == meta and 'u' or 'U' end
    local spent, open, in_flight = unpack(redis.call('HMGET', account, 'spent_' .. unit, 'open_' .. unit, 'in_flight'))
    if (spent or 0) + (open or 0) + wanted > tonumber(most) + 1e-9 then
      return tonumber(in_flight or 0) > 0 and '~' or '$'
    end
  end
end
for _, account in ipairs({meta, month}) do
  redis.call('HINCRBY', account, 'in_flight', 1)
  redis.call('HINCRBYFLOAT', account, 'open_usd', price)
end
redis.call('HINCRBYFLOAT', meta, 'open_tokens', ARGV[6])
redis.call('EXPIRE', month, ARGV[8])
redis.call('HSET', calls, ARGV[1], table.concat({'?' .. ARGV[2], ARGV[4], price, ARGV[6], month}, ' '))
if ARGV[7] ~= '' then redis.call('HSET', KEYS[7], ARGV[7], ARGV[3] .. '\31' .. ARGV[1]) end
return false
