-- End a request: keep its reply, if it has one, and put what it spent in the place of what it had reserved, on the account of its
-- job, on that of its project and on that of its stream's day. `unknown_usd` of that is an estimate: the outcome of the request is unknown. Sent again after
-- a lost answer, or late, when the request is booked as one of a dead worker's, it changes no account.
-- What was counted since the last call of this process goes to the counters with it. Once they are `most` many, a model that
-- is new, the first label, is counted as "other".
-- A reply is progress: what counts as deaths of its chunk are those since the last one.
-- KEYS calls meta counters dead   ARGV call request token chunk reply spent_usd spent_tokens uncertain unknown_usd counted most
local calls, meta, counters = KEYS[1], KEYS[2], KEYS[3]
local call, request, token, chunk, reply = unpack(ARGV, 1, 5)
local spent_usd, spent_tokens, uncertain, unknown_usd = unpack(ARGV, 6, 9)
if reply ~= '' and redis.call('EXISTS', meta) == 1 then redis.call('HSETNX', calls, call, reply) end
local its_token, usd, tokens, month = string.match(redis.call('HGET', calls, request) or '', '^%?(%S+) (%S+) (%S+) (%S+)$')
if its_token ~= token then return 0 end
redis.call('HDEL', calls, request)
if reply ~= '' then redis.call('HDEL', KEYS[4], chunk) end
for _, account in ipairs({meta, month, redis.call('HGET', meta, 'account') or nil}) do
  redis.call('HINCRBY', account, 'in_flight', -1)
  redis.call('HINCRBYFLOAT', account, 'open_usd', '-' .. usd)
  redis.call('HINCRBYFLOAT', account, 'spent_usd', spent_usd)
  if unknown_usd ~= '0' then redis.call('HINCRBYFLOAT', account, 'unknown_usd', unknown_usd) end
end
redis.call('HINCRBYFLOAT', meta, 'open_tokens', '-' .. tokens)
redis.call('HINCRBYFLOAT', meta, 'spent_tokens', spent_tokens)
if uncertain ~= '0' then
  redis.call('HINCRBY', meta, 'uncertain_calls', uncertain)
  redis.call('HINCRBY', counters, 'uncertain_calls', uncertain)
end
for field, amount in pairs(cjson.decode(ARGV[10])) do
  if redis.call('HLEN', counters) >= tonumber(ARGV[11]) and redis.call('HEXISTS', counters, field) == 0 then
    field = string.gsub(field, '\31[^\31]*', '\31other', 1)
  end
  redis.call('HINCRBYFLOAT', counters, field, amount)
end
return 1
