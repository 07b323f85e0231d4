-- Book the open requests of a chunk whose worker is gone: their outcome is unknown, so their estimates count as spent.
-- Requests of the worker that has the chunk now stay open.
-- KEYS calls meta owner counters   ARGV chunk   -> how many there were
local owner = redis.call('HGET', KEYS[3], ARGV[1])
local marks, booked = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #marks, 2 do
  local token, usd, tokens, month = string.match(marks[i + 1], '^%?(%S+) (%S+) (%S+) (%S+)$')
  if token and token ~= owner then
    redis.call('HDEL', KEYS[1], marks[i])
    for _, account in ipairs({KEYS[2], month, redis.call('HGET', KEYS[2], 'account') or nil}) do
      redis.call('HINCRBY', account, 'in_flight', -1)
      redis.call('HINCRBYFLOAT', account, 'open_usd', '-' .. usd)
      redis.call('HINCRBYFLOAT', account, 'spent_usd', usd)
      redis.call('HINCRBYFLOAT', account, 'unknown_usd', usd)
    end
    redis.call('HINCRBYFLOAT', KEYS[2], 'open_tokens', '-' .. tokens)
    redis.call('HINCRBYFLOAT', KEYS[2], 'spent_tokens', tokens)
    booked = booked + 1
  end
end
if booked > 0 then
  redis.call('HINCRBY', KEYS[2], 'uncertain_calls', booked)
  redis.call('HINCRBY', KEYS[4], 'uncertain_calls', booked)
end
return booked
