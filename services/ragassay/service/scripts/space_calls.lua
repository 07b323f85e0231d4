-- The next moment at which a call to a model may be sent: requests and tokens each keep the one after it away for a time, and the
-- later of the two counts. Or correct what the tokens of an earlier call keep it away for. Sent again after a lost answer, it
-- changes nothing.
-- KEYS line moment   ARGV request_us tokens_us 'take' | 'correct'   -> microseconds until that moment
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local at = tonumber(redis.call('GET', KEYS[2]))
if not at then
  local requests, tokens = unpack(redis.call('HMGET', KEYS[1], 'requests', 'tokens'))
  requests, tokens, at = math.max(now, requests or 0), math.max(now, tokens or 0), now
  if ARGV[3] == 'take' then
    at = math.max(requests, tokens)
    requests, tokens = at + ARGV[1], at
  end
  tokens = tokens + ARGV[2]
  redis.call('HSET', KEYS[1], 'requests', string.format('%.0f', requests), 'tokens', string.format('%.0f', tokens))
  redis.call('PEXPIRE', KEYS[1], math.ceil((math.max(requests, tokens, now) - now) / 1000) + 1000)
  redis.call('SET', KEYS[2], string.format('%.0f', at), 'EX', 120)
end
return string.format('%.0f', math.max(at - now, 0))
