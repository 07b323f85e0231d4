-- Keep a call's reply, or, with an empty one, forget that the call was open; what it spent takes the place of what it
-- had reserved, on the account of its job and on that of its project. `unknown_usd` of that are the estimates of requests with
-- an unknown outcome. Sent again after a lost answer, or late, when another worker has the call, it changes nothing: what was
-- reserved then counts as spent.
-- What was counted since the last call of this process goes to the counters with it. Once they are `most` many, a model that
-- is new, the first label, is counted as "other".
-- A reply is progress: what counts as deaths of its chunk are those since the last one.
-- KEYS calls meta counters dead   ARGV call reply spent_usd spent_tokens uncertain unknown_usd token counted most chunk
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known then -- nothing is reserved: a reply that another call has paid, or a job that has ended
  if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
  return 0
end
if string.sub(known, 1, #ARGV[7] + 2) ~= '?' .. ARGV[7] .. ' ' then return 0 end
local usd, tokens, month = string.match(known, ' (%S+) (%S+) (%S+)$')
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('HDEL', KEYS[4], ARGV[10])
end
for _, account in ipairs({KEYS[2], month}) do
  redis.call('HINCRBY', account, 'in_flight', -1)
  redis.call('HINCRBYFLOAT', account, 'open_usd', '-' .. usd)
  redis.call('HINCRBYFLOAT', account, 'spent_usd', ARGV[3])
  if ARGV[6] ~= '0' then redis.call('HINCRBYFLOAT', account, 'unknown_usd', ARGV[6]) end
end
redis.call('HINCRBYFLOAT', KEYS[2], 'open_tokens', '-' .. tokens)
redis.call('HINCRBYFLOAT', KEYS[2], 'spent_tokens', ARGV[4])
if ARGV[5] ~= '0' then
  redis.call('HINCRBY', KEYS[2], 'uncertain_calls', ARGV[5])
  redis.call('HINCRBY', KEYS[3], 'uncertain_calls', ARGV[5])
end
for field, amount in pairs(cjson.decode(ARGV[8])) do
  if redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[9]) and redis.call('HEXISTS', KEYS[3], field) == 0 then
    field = string.gsub(field, '\31[^\31]*', '\31other', 1)
  end
  redis.call('HINCRBYFLOAT', KEYS[3], field, amount)
end
return 1
