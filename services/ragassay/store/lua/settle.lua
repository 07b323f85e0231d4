-- Keep a call's reply, or, with an empty one, forget that the call was open; what it spent takes the place of what it
-- had reserved. Where `lost` attempts before may have been paid and this end doesn't tell of them, a mark of those stays.
-- Sent again after a lost answer, or late, when somebody else has the call, it changes nothing: what was reserved then
-- counts as spent.
-- What was counted since the last call of this process goes to the counters with it. Once they are `most` many, a model that
-- is new, the first label, is counted as "other".
-- KEYS calls meta counters   ARGV call reply spent_usd spent_tokens uncertain token counted most lost
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known then -- nothing was reserved: a hit of the cache where the budget is reached
  if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
  return 0
end
if string.sub(known, 1, #ARGV[6] + 2) ~= '?' .. ARGV[6] .. ' ' then return 0 end
local usd, tokens = string.match(known, ' (%S+) (%S+)$')
local reserved = usd ~= '0e0' -- else a budget refused the call to be made again, and what it had reserved is spent
if ARGV[9] ~= '0' then
  if not reserved then return 0 end
  redis.call('HSET', KEYS[1], ARGV[1], '?' .. ARGV[6] .. ' ' .. ARGV[9] - 1 .. ' 0e0 0e0')
elseif ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
if reserved then
  redis.call('HINCRBY', KEYS[2], 'in_flight', -1)
  redis.call('HINCRBYFLOAT', KEYS[2], 'open_usd', '-' .. usd)
  redis.call('HINCRBYFLOAT', KEYS[2], 'open_tokens', '-' .. tokens)
  redis.call('HINCRBYFLOAT', KEYS[2], 'spent_usd', ARGV[3])
  redis.call('HINCRBYFLOAT', KEYS[2], 'spent_tokens', ARGV[4])
end
if ARGV[2] == '' and ARGV[5] ~= '0' then redis.call('HINCRBY', KEYS[2], 'uncertain_calls', ARGV[5]) end
if ARGV[5] ~= '0' then redis.call('HINCRBY', KEYS[3], 'uncertain_calls', ARGV[5]) end
for field, amount in pairs(cjson.decode(ARGV[7])) do
  if redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[8]) and redis.call('HEXISTS', KEYS[3], field) == 0 then
    field = string.gsub(field, '\31[^\31]*', '\31other', 1)
  end
  redis.call('HINCRBYFLOAT', KEYS[3], field, amount)
end
return 1
