-- Reserve what one request of a call may take, on the account of its job, on that of its project in this month and, if its rows
-- are live traffic, on that of their stream's day. Answers:
-- 'granted'   'settled' with the reply of the call   'same' with the reply to another call with the same content
-- 'stop': the job was cancelled, or the chunk was given to another worker   'busy': another call with the same content is in flight
-- 'wait': calls in flight have to end first   'over': the budget is reached
-- 'job has no price', 'project has no price': USD are capped there, and the call has no known price
-- The mark of a request is its field in `calls`; sent again after a lost answer, it finds its own.
-- KEYS calls meta owner cap month contents   ARGV call request token chunk usd tokens content kept_s   -> answer, reply
local calls, meta, month = KEYS[1], KEYS[2], KEYS[5]
local call, request, token, chunk = unpack(ARGV, 1, 4)
local usd, tokens, content = unpack(ARGV, 5, 7)
local reply = redis.call('HGET', calls, call)
if reply then return {'settled', reply} end
if redis.call('HGET', meta, 'status') == 'cancelled' or redis.call('HGET', KEYS[3], chunk) ~= token then return {'stop'} end
if redis.call('HEXISTS', calls, request) == 1 then return {'granted'} end
if content ~= '' then
  local at, other, its_request = string.match(redis.call('HGET', KEYS[6], content) or '', '^(.-)\31(.-)\31(.*)$')
  if at and not (at == chunk and other == call) then
    local its_calls = string.sub(calls, 1, #calls - #chunk) .. at
    local known = redis.call('HGET', its_calls, other)
    if known then return {'same', known} end
    local mark = redis.call('HGET', its_calls, its_request)
    if mark and parsed(mark) == redis.call('HGET', KEYS[3], at) then return {'busy'} end
  end
end
local price = usd == '' and '0' or usd
local day, most_of_day = unpack(redis.call('HMGET', meta, 'account', 'most_account_usd'))
local limits = {
  {meta, redis.call('HGET', meta, 'most_usd'), 'usd', price},
  {meta, redis.call('HGET', meta, 'most_tokens'), 'tokens', tokens},
  {month, redis.call('GET', KEYS[4]), 'usd', price},
  {day, most_of_day, 'usd', price},
}
for _, limit in ipairs(limits) do
  local account, most, unit, wanted = unpack(limit)
  if most then
    if unit == 'usd' and usd == '' then return {account == month and 'project has no price' or 'job has no price'} end
    local spent, open, in_flight = unpack(redis.call('HMGET', account, 'spent_' .. unit, 'open_' .. unit, 'in_flight'))
    if (spent or 0) + (open or 0) + wanted > tonumber(most) + 1e-9 then
      return {tonumber(in_flight or 0) > 0 and 'wait' or 'over'}
    end
  end
end
for _, account in ipairs({meta, month, day or nil}) do
  redis.call('HINCRBY', account, 'in_flight', 1)
  redis.call('HINCRBYFLOAT', account, 'open_usd', price)
end
redis.call('HINCRBYFLOAT', meta, 'open_tokens', tokens)
redis.call('EXPIRE', month, ARGV[8])
if day then redis.call('EXPIRE', day, ARGV[8]) end
redis.call('HSET', calls, request, table.concat({'?' .. token, price, tokens, month}, ' '))
if content ~= '' then redis.call('HSET', KEYS[6], content, table.concat({chunk, call, request}, '\31')) end
return {'granted'}
