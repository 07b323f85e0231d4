-- The next moment at which a call to a model may be sent: requests and tokens each keep the one after it away for a time, and the
-- later of the two counts. Or correct what the tokens of an earlier call keep it away for.
-- KEYS line   ARGV request_us tokens_us 'take' | 'correct'   -> microseconds until that moment
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function due(kind)
  return math.max(now, tonumber(redis.call('HGET', KEYS[1], kind) or 0))
end
local requests, tokens = due('requests'), due('tokens')
local at = now
if ARGV[3] == 'take' then
  at = math.max(requests, tokens)
  requests, tokens = at + ARGV[1], at
end
tokens = tokens + ARGV[2]
redis.call('HSET', KEYS[1], 'requests', string.format('%.0f', requests), 'tokens', string.format('%.0f', tokens))
redis.call('PEXPIRE', KEYS[1], math.ceil((math.max(requests, tokens, now) - now) / 1000) + 1000)
return string.format('%.0f', at - now)
